//! The command processor of the compute engines: PM4 and AQL.
