"""Interface to the kernel: system calls, netlink, shapers, queues and settings."""
