#!/usr/bin/python
"""Ansible module: list what runs that were cut off have left on a host, or remove it."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: testbed_left
short_description: What runs that were cut off have left
description: [Only what carries a run's mark whose agent does not live.]
options:
  home: {description: Where everything of ours is., type: path, required: true}
  remove: {description: Whether to remove it., type: bool, default: false}
author: [testbed]
"""
EXAMPLES = """
- testbed_left: {home: /var/lib/testbed}
"""


def main():
    options = {
        "home": {"type": "path", "required": True},
        "remove": {"type": "bool", "default": False},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    home, remove = module.params["home"], module.params["remove"]
    code = next(Path(home).glob("code-*"), None)
    if code is None:  # it is not prepared, so nothing has run there
        module.exit_json(changed=False, left=[])
    sys.path.insert(0, str(code))
    from testbed.base.errors import TestbedError
    from testbed.lab.baremetal.nics import leftovers

    try:
        left = leftovers.find(home)
        if left and remove and not module.check_mode:
            leftovers.remove(home)
    except TestbedError as error:
        module.fail_json(msg=error.problem, fix=error.fix or "see what the host says of it")
    module.exit_json(changed=bool(left) and remove, left=left)


if __name__ == "__main__":
    main()
