"""Small pictures of tools, made of the images that vendors give.

A page must not load anything from a vendor, and a vendor's file must not reach a browser. So a worker fetches
the image, decodes it within bounds, and stores a small picture that Pegboard has drawn itself.
"""
