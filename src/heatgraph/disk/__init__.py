"""Files and folders that are replaced as a whole, whatever happens to the process or the disk."""

from heatgraph.disk.replacing import write_atomically, write_folder

__all__ = ["write_atomically", "write_folder"]
