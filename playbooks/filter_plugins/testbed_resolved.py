"""Ansible filter: what variables of hosts are once templates and vaults are resolved, or why one cannot be."""

from __future__ import annotations

import json


def resolved(wanted, hostvars):
    """``wanted`` is [host, variable] of each; returns {value} or {problem} of each."""
    return [_one(hostvars, host, variable) for host, variable in wanted]


def _one(hostvars, host, variable):
    try:
        # Ansible resolves what is nested, and vaults, when it is used; older ones have types that are no strings.
        return {"value": json.loads(json.dumps(hostvars[host][variable], default=str))}
    except Exception as error:  # a template may raise anything
        return {"problem": str(error)}


class FilterModule:
    def filters(self):
        return {"testbed_resolved": resolved}
