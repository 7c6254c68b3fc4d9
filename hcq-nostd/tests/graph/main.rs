//! Graphs and images on a machine that is none: an encoder whose words are easily read, with descriptors beside them.

mod build;
mod image;
mod mutated;
mod scenes;
mod timelines;
mod toy;
