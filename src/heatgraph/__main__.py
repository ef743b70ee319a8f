"""Run the command line by ``python -m heatgraph``."""

from heatgraph.cli import main

if __name__ == "__main__":
    main()
