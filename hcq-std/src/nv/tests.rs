use super::fake::{Counted, Failure, Fake, State};
use super::*;
use crate::seam::Errno;
use hcq_uapi::nv as uapi;

mod chains;
mod events;
mod memory;
mod opening;
mod queues;

fn options() -> Options {
    Options::default().ring_packets(64)
}

fn open_as(fake: &Arc<Fake>, branch: Option<&str>) -> Result<Opened, Error> {
    let process = Process::open_as(&fake.system(), branch)?;
    open(&process, 0, &options())
}

/// A GPU as it is used inside: the device, and its port.
fn opened(fake: &Arc<Fake>) -> Opened {
    open_as(fake, None).expect("all is there")
}

/// The device behind the trait.
fn inside(backend: &Arc<dyn Backend>) -> &Nv {
    backend.as_any().downcast_ref().expect("an NVIDIA GPU")
}

fn is_empty(fake: &Fake) {
    assert_eq!(fake.state().left(), State::NOTHING);
}

/// Lets each call of `run` fail once, in every way, and sees that nothing is left behind. Returns in how many runs the
/// failure was borne.
fn each_call_fails(gpus: u8, run: impl Fn(&Arc<Fake>) -> Result<(), Error>) -> usize {
    let calls = {
        let fake = Fake::new(gpus);
        run(&fake).expect("without failures");
        is_empty(&fake);
        fake.state().calls.len()
    };
    let mut borne = 0;
    for at in 0..calls {
        for failure in [
            Failure::System(Errno::NOMEM),
            Failure::System(Errno::IO),
            Failure::Status(uapi::NV_ERR_NO_MEMORY),
            Failure::Status(uapi::NV_ERR_INVALID_ARGUMENT),
        ] {
            let fake = Fake::new(gpus);
            fake.state().calls.fail(at, 1, failure);
            let result = run(&fake);
            let call = fake.state().calls[at];
            let left = fake.state().left();
            assert_eq!(
                left,
                State::NOTHING,
                "call {at} ({call:?}), {failure:?}: {result:?}"
            );
            borne += usize::from(result.is_ok());
        }
    }
    borne
}

#[test]
fn every_class_of_a_chip_must_be_there() {
    let ga102 = [0xc7c0, 0xc56f, 0xc7b5, 0xc561, 0xc36f];
    assert_eq!(gpu::chip_of(&ga102).expect("known").name, "ga10x");
    assert!(gpu::chip_of(&ga102[..3]).is_none());
    // The newest wins: later drivers list older classes, too.
    let ada = [&ga102[..], &[0xc9c0]].concat();
    assert_eq!(gpu::chip_of(&ada).expect("known").name, "ad10x");
    assert!(gpu::chip_of(&[]).is_none());
}
