mod fuzz;
mod golden;
mod illegal;
mod launches;
mod order;
mod packets;
mod standins;
mod support;
