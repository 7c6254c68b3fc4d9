mod fuzz;
mod illegal;
mod launches;
mod order;
mod packets;
mod support;
