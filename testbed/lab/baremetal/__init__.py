"""Machines reached by SSH: an Ansible inventory, playbooks to prepare and shape them, and an agent on each.

The lab itself is in :mod:`testbed.lab.baremetal.lab`; hosts import this package, too, and need no controller.
"""
