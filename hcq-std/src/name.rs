//! Names of devices: `[sim:]device[:ordinal][,option]...`.
//!
//! `cpu`, `amd`, `amd:1`, `amd:1,aql`, `sim:amd-gfx1100`, `sim:amd-gfx942:1,gpus=4,aql,seed=7`. Options with a value belong
//! to the simulated machine, options without one to the device.

use crate::Error;

/// Families that a name can start with, in the order of lists.
pub(crate) const FAMILIES: [&str; 4] = ["cpu", "amd", "nv", "qcom"];

/// A name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    /// The machine to simulate.
    pub(crate) machine: Option<Machine<'a>>,
    /// One of [`FAMILIES`].
    pub(crate) family: &'static str,
    /// Which of them, from 0.
    pub(crate) ordinal: usize,
    /// AMD: compute queues of AQL packets.
    pub(crate) aql: bool,
    /// Adreno: the fastest clock while work runs.
    pub(crate) fast: bool,
    /// Adreno: the GPU behind Linux' own driver. A simulated machine has that driver then.
    pub(crate) msm: bool,
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine<'a> {
    /// `amd-gfx942`.
    pub(crate) chip: &'a str,
    /// `gpus=4`, in the order given.
    pub(crate) options: Vec<(&'a str, &'a str)>,
}

impl Machine<'_> {
    #[cfg(any(test, feature = "sim"))]
    /// As the simulation takes it: `amd-gfx942,gpus=4`.
    pub(crate) fn text(&self) -> String {
        let mut text = self.chip.to_owned();
        for (option, value) in &self.options {
            text.extend([",", option, "=", value]);
        }
        text
    }
}

/// Names that exist, for messages.
pub(crate) fn known() -> String {
    let mut names = FAMILIES.join(", ");
    if cfg!(feature = "sim") {
        names.push_str(", sim:amd-CHIP (a simulated one: gfx942, gfx1100, ...), sim:nv-CHIP (ampere, ada, hopper, blackwell), sim:qcom-CHIP (a630, a650, a660)");
    }
    names
}

impl<'a> Name<'a> {
    /// Takes a name apart.
    pub(crate) fn parse(name: &'a str) -> Result<Self, Error> {
        let unknown = || Error::UnknownDevice {
            name: name.into(),
            known: known(),
        };
        let refused = |reason: String, hint: &str| Error::Unavailable {
            name: name.into(),
            reason,
            hint: hint.into(),
        };
        let mut parts = name.split(',');
        let device = parts.next().unwrap_or_default();
        let (simulated, device) = match device.strip_prefix("sim:") {
            Some(device) => (true, device),
            None => (false, device),
        };
        let (device, ordinal) = match device.split_once(':') {
            Some((device, ordinal)) => (device, Some(ordinal)),
            None => (device, None),
        };
        let named = match device.split_once('-') {
            Some((family, _)) if simulated => family,
            _ => device,
        };
        let family = FAMILIES.into_iter().find(|&f| f == named);
        let family = family.ok_or_else(unknown)?;
        if simulated && family == "cpu" {
            return Err(unknown());
        }
        let ordinal = match ordinal {
            None => 0,
            Some(_) if family == "cpu" => {
                return Err(refused("there is one CPU device".into(), "use `cpu`"));
            }
            Some(digits) => {
                let ordinal = digits
                    .parse()
                    .ok()
                    .filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
                ordinal.ok_or_else(|| {
                    refused(
                        format!("`{digits}` is not a number"),
                        "devices are counted from 0: amd:1 is the second",
                    )
                })?
            }
        };
        let mut parsed = Self {
            machine: simulated.then(|| Machine {
                chip: device,
                options: Vec::new(),
            }),
            family,
            ordinal,
            aql: false,
            fast: false,
            msm: false,
        };
        for option in parts {
            match (option.split_once('='), &mut parsed.machine) {
                (Some((option, value)), Some(machine)) => {
                    if machine.options.iter().any(|(o, _)| *o == option) {
                        let reason = format!("option `{option}` is there twice");
                        return Err(refused(reason, "say it once"));
                    }
                    machine.options.push((option, value));
                }
                (Some((option, _)), None) => {
                    let reason = format!("`{option}` is an option of simulated machines");
                    return Err(refused(
                        reason,
                        "options of the device itself have no value",
                    ));
                }
                (None, _) if option == "aql" && family == "amd" => {
                    if std::mem::replace(&mut parsed.aql, true) {
                        return Err(refused("option `aql` is there twice".into(), "say it once"));
                    }
                }
                (None, machine) if option == "msm" && family == "qcom" => {
                    if std::mem::replace(&mut parsed.msm, true) {
                        return Err(refused("option `msm` is there twice".into(), "say it once"));
                    }
                    if let Some(machine) = machine {
                        if machine.options.iter().any(|(o, _)| *o == "msm") {
                            let reason = "option `msm` is there twice".into();
                            return Err(refused(reason, "say it once"));
                        }
                        machine.options.push(("msm", "present"));
                    }
                }
                (None, _) if option == "fast" && family == "qcom" => {
                    if std::mem::replace(&mut parsed.fast, true) {
                        return Err(refused(
                            "option `fast` is there twice".into(),
                            "say it once",
                        ));
                    }
                }
                (None, _) => {
                    let hint = match family {
                        "amd" => "an AMD device takes `aql`",
                        "qcom" => "an Adreno device takes `fast` and `msm`",
                        _ => "this device takes none",
                    };
                    return Err(refused(format!("there is no option `{option}`"), hint));
                }
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let plain = Name {
            machine: None,
            family: "amd",
            ordinal: 0,
            aql: false,
            fast: false,
            msm: false,
        };
        let cases = [
            ("amd", plain.clone()),
            (
                "amd:1",
                Name {
                    ordinal: 1,
                    ..plain.clone()
                },
            ),
            (
                "amd:1,aql",
                Name {
                    ordinal: 1,
                    aql: true,
                    ..plain.clone()
                },
            ),
            (
                "cpu",
                Name {
                    family: "cpu",
                    ..plain.clone()
                },
            ),
            (
                "sim:amd-gfx1100",
                Name {
                    machine: Some(Machine {
                        chip: "amd-gfx1100",
                        options: Vec::new(),
                    }),
                    ..plain.clone()
                },
            ),
            (
                "sim:amd-gfx942:1,gpus=4,aql,seed=7",
                Name {
                    machine: Some(Machine {
                        chip: "amd-gfx942",
                        options: vec![("gpus", "4"), ("seed", "7")],
                    }),
                    ordinal: 1,
                    aql: true,
                    ..plain.clone()
                },
            ),
            (
                "qcom,msm,fast",
                Name {
                    family: "qcom",
                    fast: true,
                    msm: true,
                    ..plain.clone()
                },
            ),
            (
                "sim:qcom-a630,msm,seed=7",
                Name {
                    family: "qcom",
                    machine: Some(Machine {
                        chip: "qcom-a630",
                        options: vec![("msm", "present"), ("seed", "7")],
                    }),
                    msm: true,
                    ..plain
                },
            ),
        ];
        for (text, name) in cases {
            assert_eq!(Name::parse(text).expect(text), name, "{text}");
        }
        let name = Name::parse("sim:amd-gfx942:1,gpus=4,aql,seed=7").expect("as above");
        let machine = name.machine.expect("as above");
        assert_eq!(machine.text(), "amd-gfx942,gpus=4,seed=7");
    }

    #[test]
    fn what_is_no_name_is_refused_in_words() {
        for text in [
            "",
            " ",
            "gpu",
            "CPU",
            "cpu ",
            "amdx",
            "amd-gfx942",
            "sim:",
            "sim:cpu",
            "sim",
            "simamd",
            ":1",
            ",aql",
            "sim:gfx942",
            "sim:sim:amd",
        ] {
            let e = Name::parse(text).expect_err(text);
            assert!(matches!(e, Error::UnknownDevice { .. }), "{text}: {e}");
            assert!(e.to_string().contains("cpu, amd, nv, qcom"), "{e}");
        }
        for (text, part) in [
            ("cpu:0", "there is one CPU device"),
            ("amd:", "`` is not a number"),
            ("amd:+1", "`+1` is not a number"),
            ("amd:-1", "`-1` is not a number"),
            ("amd:1:2", "`1:2` is not a number"),
            ("amd:99999999999999999999", "is not a number"),
            ("amd,", "no option ``"),
            ("amd,aqk", "no option `aqk`; an AMD device takes `aql`"),
            ("amd,aql,aql", "`aql` is there twice"),
            ("cpu,aql", "no option `aql`; this device takes none"),
            ("amd,gpus=2", "`gpus` is an option of simulated machines"),
            ("sim:amd-gfx942,gpus=2,gpus=2", "`gpus` is there twice"),
            ("amd,msm", "no option `msm`"),
            ("qcom,msm,msm", "`msm` is there twice"),
            ("sim:qcom-a630,msm=bare,msm", "`msm` is there twice"),
            ("sim:qcom-a630,msm,msm=bare", "`msm` is there twice"),
        ] {
            let e = Name::parse(text).expect_err(text);
            assert!(e.to_string().contains(part), "{text}: {e}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(sim:)?[a-z0-9:,=-]{0,24}") {
            let _ = Name::parse(&text);
        }
    }
}
