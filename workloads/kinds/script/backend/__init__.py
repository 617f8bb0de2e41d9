"""A backend of ``torch.distributed``, in the process of a rank. Nothing else of testbed imports PyTorch for scripts."""
