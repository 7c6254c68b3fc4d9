//! The environment variables that a device reads when it is opened.

use std::time::Duration;

use crate::Error;

/// Milliseconds without progress after which a wait gives up. The name is the one that users of tinygrad know.
pub(crate) const WAIT_TIMEOUT_MS: &str = "HCQDEV_WAIT_TIMEOUT_MS";

const COPY_QUEUES: &str = "HCQ_NUM_SDMA";
const DEFAULT_WAIT_TIMEOUT_MS: u64 = 30_000;

/// The time without progress after which a wait gives up: what the options say, else the environment, else 30 seconds.
pub(crate) fn wait_timeout(option_ms: Option<u64>) -> Result<Duration, Error> {
    let text = std::env::var_os(WAIT_TIMEOUT_MS).map(|v| v.to_string_lossy().into_owned());
    parse_wait_timeout(option_ms, text.as_deref())
}

/// Copy queues that a graph spreads copies over: what the environment says, if anything.
pub(crate) fn copy_queues() -> Result<Option<u16>, Error> {
    let text = std::env::var_os(COPY_QUEUES).map(|v| v.to_string_lossy().into_owned());
    let Some(text) = text else { return Ok(None) };
    match text.trim().parse() {
        Ok(n) => Ok(Some(n)),
        Err(_) => Err(Error::Environment {
            variable: COPY_QUEUES,
            value: text,
            wanted: "a number of copy queues, or 0 for as many as there are devices",
        }),
    }
}

fn parse_wait_timeout(option_ms: Option<u64>, text: Option<&str>) -> Result<Duration, Error> {
    let ms = match (option_ms, text) {
        (Some(ms), _) => ms,
        (None, Some(text)) => text.trim().parse().map_err(|_| Error::Environment {
            variable: WAIT_TIMEOUT_MS,
            value: text.to_owned(),
            wanted: "a number of milliseconds, such as 30000",
        })?,
        (None, None) => DEFAULT_WAIT_TIMEOUT_MS,
    };
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_environment_over_the_default() {
        let ms = |option, text| {
            parse_wait_timeout(option, text)
                .map(|d| d.as_millis())
                .map_err(|e| e.to_string())
        };
        assert_eq!(ms(None, None), Ok(30_000));
        assert_eq!(ms(None, Some(" 250 ")), Ok(250));
        assert_eq!(ms(Some(7), Some("250")), Ok(7));
        let refused = ms(None, Some("soon")).expect_err("no number");
        assert!(
            refused.contains("HCQDEV_WAIT_TIMEOUT_MS") && refused.contains("soon"),
            "{refused}"
        );
    }
}
