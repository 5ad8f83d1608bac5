"""The pictures of the studies. Needs Matplotlib."""

def drawn(name, data, path):
    pass
