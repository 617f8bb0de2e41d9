#!/usr/bin/python
"""Ansible module: shape a host's training NICs, or undo it. What it does is in our code there (prepare.yml)."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: testbed_shape
short_description: Shape training NICs until a deadline that must be put off
description:
  - Makes NICs as the plan says, or undoes everything. Idempotent. Refuses the interface that the SSH connection uses.
  - A process beside it undoes everything once plan.undo_s seconds have passed in which nobody has put that off.
options:
  home: {description: Where everything of ours is., type: path, required: true}
  digest: {description: The code that does it; any that is there undoes it., type: str}
  plan: {description: As testbed.lab.baremetal.nics.readback.Wanted., type: dict}
  state: {description: Shaped or not., type: str, choices: [present, absent], default: present}
author: [testbed]
"""
EXAMPLES = """
- testbed_shape: {home: /var/lib/testbed, state: absent}
"""


def main():
    options = {
        "home": {"type": "path", "required": True},
        "digest": {"type": "str"},
        "plan": {"type": "dict"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    module = AnsibleModule(
        argument_spec=options, supports_check_mode=True, required_if=[("state", "present", ["digest", "plan"])]
    )
    absent, home = module.params["state"] == "absent", Path(module.params["home"])
    code = next(home.glob(f"code-{module.params['digest'] or '*'}/testbed"), None)
    if code is None:
        if absent:
            module.exit_json(changed=False)
        module.fail_json(msg="it is not prepared with this code", fix="testbed hosts prepare --inventory FILE")
    sys.path.insert(0, str(code.parent))
    from testbed.base.errors import TestbedError
    from testbed.lab.baremetal.nics import shaper

    try:
        if absent:
            changed = shaper.undo(check=module.check_mode)
        else:
            changed = shaper.apply(shaper.Wanted.read(module.params["plan"]), check=module.check_mode)
    except TestbedError as error:
        module.fail_json(msg=error.problem, fix=error.fix or "see what the host says of it")
    except PermissionError as error:
        module.fail_json(
            msg=f"may not change its network ({error})", fix="set ansible_become: true, or ansible_user: root"
        )
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
