"""An Ansible inventory, the playbooks over it, and what they need and bring to hosts."""
