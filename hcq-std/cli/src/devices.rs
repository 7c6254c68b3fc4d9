//! `hcq devices`: what is there, what is not and why.

use serde_json::json;

use crate::args::DevicesArgs;
use crate::exit::Exit;
use crate::failure::Result;
use crate::{json_line, say};
