"""The needs of a machine before a build: Python packages, libclang, a compiler, and what a failed build says."""
