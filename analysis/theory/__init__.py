"""Models of papers, computed: what measurements and plans are held against."""
