"""`python -m nodes.cli` is the command `holon`."""

from nodes.cli.entry import main

if __name__ == "__main__":
    main()
