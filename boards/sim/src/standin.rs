//! Host functions that stand in for the machine code of known programs.
