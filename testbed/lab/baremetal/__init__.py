"""Machines reached by SSH: an Ansible inventory, playbooks to prepare and shape them, and an agent on each."""

from testbed.lab.baremetal.lab import BaremetalLab

__all__ = ["BaremetalLab"]
