"""`python -m registry.cli` runs `dermfed-registry`."""

from registry.cli.app import main

if __name__ == "__main__":
    main()
