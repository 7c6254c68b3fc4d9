//! Images: written, loaded at another address, launched; and refused.

use crate::scenes::{Home, Rng, Scene, values};
use hcq_nostd::graph::Graph;
use hcq_nostd::image::{
    Buffer, Code, Contents, Image, LoadError, Role, Section, Target, Variable, VariableKind,
    WriteError, bytes, write,
};
use hcq_nostd::plan::Engine;
use hcq_nostd::value::Var;

const SEEDS: u64 = if cfg!(miri) { 1 } else { 300 };

/// What goes into an image beside a scene's graph.
pub(crate) struct Parts {
    names: Vec<String>,
    code: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(scene: &Scene, rng: &mut Rng) -> Self {
        let n = scene.variables as usize + scene.chores.len();
        Self {
            names: (0..n).map(|i| format!("näme {i}")).collect(),
            code: (0..rng.below(300)).map(|i| i as u8).collect(),
        }
    }

    pub(crate) fn with<R>(
        &self,
        scene: &Scene,
        graph: &Graph<'_>,
        f: impl FnOnce(&Contents<'_>) -> R,
    ) -> R {
        let target = Target {
            kind: "toy",
            chip: "toy1",
            abi: 3,
        };
        // A compute queue of the code's device, if there is one.
        let mut queues = (0u16..).zip(graph.queues());
        let queue = queues.find(|(_, q)| q.device() == 0 && q.engine() == Engine::Compute);
        let of_places = self.code.len().is_multiple_of(2);
        let kind = |v: u32| match (v, queue) {
            (1, _) => VariableKind::Scalar { bytes: 4 },
            (3, Some((queue, _))) if of_places => VariableKind::Private {
                code: 0,
                queue,
                part: 7,
            },
            (5, _) if of_places => VariableKind::Own { device: 0 },
            _ if v.is_multiple_of(2) => VariableKind::Buffer { buffer: v / 2 },
            _ => VariableKind::Count,
        };
        let variables: Vec<Variable<'_>> = (0..scene.variables)
            .zip(&self.names)
            .map(|(v, name)| Variable {
                name,
                kind: kind(v),
            })
            .collect();
        let nodes: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let buffers: Vec<Buffer<'_>> = (0..scene.variables / 2)
            .map(|b| Buffer {
                name: "in",
                device: scene.allocations[b as usize].device,
                role: if b == 0 { Role::Input } else { Role::Constant },
                bytes: 0x1000,
                align: 256,
                contents: self.code.get(..b as usize).unwrap_or_default(),
            })
            .collect();
        let codes = [Code {
            name: "kernels",
            device: 0,
            align: 256,
            bytes: &self.code,
            sha256: [7; 32],
        }];
        f(&Contents {
            graph,
            targets: &vec![target; scene.devices.len()],
            variables: &variables,
            codes: &codes,
            buffers: &buffers,
            nodes: &nodes[scene.variables as usize..],
        })
    }
}

/// An image of a random scene.
pub(crate) fn random(seed: u64) -> (Scene, Vec<u64>) {
    let mut rng = Rng(seed);
    let scene = Scene::random(&mut rng);
    let graph = scene.record(None, None).graph;
    let parts = Parts::of(&scene, &mut rng);
    let image = parts.with(&scene, &graph, |contents| {
        let mut memory = vec![u64::MAX; bytes(contents).unwrap()];
        write(contents, &mut memory).unwrap();
        memory
    });
    (scene, image)
}

pub(crate) fn as_bytes(words: &[u64]) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(words)
}

#[test]
fn what_was_written_is_loaded_elsewhere_and_replayed() {
    for seed in 0..SEEDS {
        let mut rng = Rng(seed);
        let scene = Scene::random(&mut rng);
        let graph = scene.record(None, None).graph;
        let parts = Parts::of(&scene, &mut rng);
        let copy = parts.with(&scene, &graph, |contents| {
            let need = bytes(contents).unwrap();
            let short = write(contents, &mut vec![0; need - 1]).map(drop);
            let have = need - 1;
            assert_eq!(short, Err(WriteError::Short { need, have }));
            let mut memory = vec![u64::MAX; need];
            write(contents, &mut memory).unwrap();
            memory.clone()
        });
        let image = Image::load(as_bytes(&copy)).unwrap();
        parts.with(&scene, &graph, |contents| {
            assert!(image.targets().eq(contents.targets.iter().copied()));
            assert!(image.variables().eq(contents.variables.iter().copied()));
            assert!(image.codes().eq(contents.codes.iter().copied()));
            assert!(image.buffers().eq(contents.buffers.iter().copied()));
            assert_eq!(image.nodes(), contents.nodes.len());
            for (n, name) in (0u32..).zip(contents.nodes) {
                assert_eq!(image.node(n), Some(*name));
            }
            let first = contents.variables[0];
            assert_eq!(image.variable(first.name), Some((Var::new(0), first.kind)));
        });
        // The image's graph, with nothing of the first one.
        let v = values(&scene, &mut rng);
        let (mut ours, mut theirs) = (Home::of(&graph, seed), Home::of(image.graph(), seed));
        assert_eq!(
            ours.launch(&graph, &[&v]),
            theirs.launch(image.graph(), &[&v])
        );
        assert_eq!(ours.bytes(), theirs.bytes(), "seed {seed}");
        theirs.check_guards();
        // An image of the image.
        let again = parts.with(&scene, image.graph(), |contents| {
            let mut memory = vec![0; bytes(contents).unwrap()];
            write(contents, &mut memory).unwrap();
            memory
        });
        assert!(again == copy, "seed {seed}");
    }
}

#[test]
fn what_is_no_image_is_refused_with_the_reason() {
    let many = if cfg!(miri) { 3 } else { 7 };
    let mut images = (0..).map(random);
    let (scene, words) = images.find(|(s, _)| s.chores.len() >= many).unwrap();
    let good = as_bytes(&words);
    let image = Image::load(good).unwrap();
    let target = image.targets().next().unwrap();
    let mine = vec![target; scene.devices.len()];
    assert_eq!(image.require(&mine), Ok(()));
    let taking_part = image.graph().devices().iter().position(|d| d.takes_part());
    let device = u16::try_from(taking_part.unwrap()).unwrap();
    for other in [
        Target {
            kind: "amd",
            ..target
        },
        Target {
            chip: "toy2",
            ..target
        },
        Target { abi: 4, ..target },
    ] {
        let mut all = mine.clone();
        all[usize::from(device)] = other;
        assert_eq!(image.require(&all), Err(LoadError::Target { device }));
    }
    assert_eq!(image.require(&[]).map_err(|e| e.to_string()), {
        Err(format!(
            "device {device} is not what the graph was recorded for"
        ))
    });

    let with = |f: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        f(&mut bytes);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        zerocopy::IntoBytes::as_mut_bytes(&mut words[..])[..bytes.len()].copy_from_slice(&bytes);
        Image::load(&as_bytes(&words)[..bytes.len()]).map(drop)
    };
    let have = good.len() as u64;
    assert_eq!(
        with(&|b| b[0] ^= 1),
        Err(LoadError::Magic { seen: 0x4751_4349 })
    );
    assert_eq!(with(&|b| b[4] = 9), Err(LoadError::Version { seen: 9 }));
    let flipped = with(&|b| {
        let last = b.len() - 1;
        b[last] ^= 0x10;
    });
    assert!(
        matches!(flipped, Err(LoadError::Checksum { .. })),
        "{flipped:?}"
    );
    let cut = with(&|b| b.truncate(b.len() - 64));
    let size = |have| {
        Err(LoadError::Size {
            need: good.len() as u64,
            have,
        })
    };
    assert_eq!(cut, size(have - 64));
    assert_eq!(with(&|b| b.push(0)), size(have + 1));
    assert!(matches!(
        with(&|b| b.truncate(100)),
        Err(LoadError::Size { .. })
    ));
    assert!(matches!(
        with(&|b| b.clear()),
        Err(LoadError::Size { have: 0, .. })
    ));
    let mut odd = vec![0u64; words.len() + 1];
    zerocopy::IntoBytes::as_mut_bytes(&mut odd[..])[1..=good.len()].copy_from_slice(good);
    let odd = Image::load(&as_bytes(&odd)[1..=good.len()]);
    assert_eq!(odd.map(drop), Err(LoadError::Misaligned));
}

#[test]
fn what_the_loader_would_refuse_is_not_written() {
    let scene = Scene::random(&mut Rng(3));
    let graph = scene.record(None, None).graph;
    let parts = Parts::of(&scene, &mut Rng(3));
    parts.with(&scene, &graph, |contents| {
        let none = Contents {
            targets: &[],
            ..*contents
        };
        let mut memory = vec![0; bytes(contents).unwrap()];
        let (need, have) = (scene.devices.len() as u64, 0);
        let section = Section::Targets;
        let count = LoadError::Count {
            section,
            need,
            have,
        };
        let refused = write(&none, &mut memory).map(drop);
        assert_eq!(refused, Err(WriteError::Refused(count)));
        let copies = (0u16..).zip(graph.queues());
        let copies = copies.filter(|(_, q)| q.engine() == Engine::Copy || q.device() != 0);
        let private = |code, queue| VariableKind::Private {
            code,
            queue,
            part: 0,
        };
        let kinds = [
            VariableKind::Buffer { buffer: 1000 },
            VariableKind::Code { code: 1 },
            private(1, 0),
            private(0, 1000),
            VariableKind::Own { device: 1000 },
        ];
        let kinds = kinds.into_iter().chain(copies.map(|(q, _)| private(0, q)));
        for kind in kinds {
            let mut variables = contents.variables.to_vec();
            variables[1].kind = kind;
            let wrong = Contents {
                variables: &variables,
                ..*contents
            };
            let section = Section::Variables;
            let entry = LoadError::Entry { section, index: 1 };
            let refused = write(&wrong, &mut memory).map(drop);
            assert_eq!(refused, Err(WriteError::Refused(entry)), "{kind:?}");
        }
    });
}
