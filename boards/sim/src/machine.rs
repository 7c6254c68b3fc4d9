//! The machine: its files, its GPUs, and the order in which things happen.
