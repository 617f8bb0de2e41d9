"""Parts of one emulated network over several machines: hosts and switches are namespaces as in the lab ``netns``, and
links from machine to machine are VXLAN."""
