//! Packets here are written word by word from the vendors' documents.

mod packets;
mod support;
