"""NVTX ranges: which lies inside which, and which GPU work was launched in them."""
