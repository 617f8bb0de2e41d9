"""Pages: templates, and large texts and figures that are packed into them."""
