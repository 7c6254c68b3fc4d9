use super::*;
use crate::backend::Origin;

fn all_purposes(nv: &Nv) -> Result<(), Error> {
    for purpose in [
        Purpose::Data,
        Purpose::Exchange,
        Purpose::Signals,
        Purpose::Code,
    ] {
        let memory = nv.allocate(10_000, purpose)?;
        assert!(memory.address < 1 << 40 && memory.address.is_multiple_of(4096));
        nv.hide(&memory);
        nv.release(memory);
    }
    Ok(())
}

#[test]
fn memory_is_where_its_purpose_wants_it() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let count = |class| fake.state().of_class(class).len();
    let (video, host) = (
        count(uapi::NV01_MEMORY_LOCAL_USER),
        count(uapi::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR),
    );
    let data = nv.allocate(1 << 20, Purpose::Data).expect("memory");
    let code = nv.allocate(100, Purpose::Code).expect("memory");
    assert_eq!(count(uapi::NV01_MEMORY_LOCAL_USER), video + 2);
    let signals = nv.allocate(64, Purpose::Signals).expect("memory");
    assert_eq!(count(uapi::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR), host + 1);
    assert!(data.origin == Origin::Driver && data.writable && data.len == 1 << 20);
    for memory in [data, code, signals] {
        nv.hide(&memory);
        nv.release(memory);
    }
    assert_eq!(count(uapi::NV01_MEMORY_LOCAL_USER), video);
    // A small window would need copies where plain access is promised.
    assert!(!table::is_video(Purpose::Data, false));
    drop((backend, _port));
    is_empty(&fake);
}

#[test]
fn memory_is_at_one_address_for_host_and_gpu_if_that_is_free() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    // Other tests' machines have the same addresses at the same time: far up there is room, and
    // what is that large fits nowhere below.
    let root = Arc::clone(nv.gpu.root());
    let far = root.addresses(300 << 30, 4096).expect("room");
    let memory = nv.allocate(128 << 20, Purpose::Signals).expect("memory");
    assert_eq!(memory.cpu.as_ptr().addr() as u64, memory.address);
    // What is there already is not touched.
    let taken = root
        .system
        .reserve(memory.address as usize, 4096)
        .expect("elsewhere");
    assert_ne!(taken.as_ptr().addr() as u64, memory.address);
    #[allow(unsafe_code, reason = "ends what was reserved")]
    // SAFETY: reserved just now.
    unsafe { root.system.munmap(taken, 4096) }.expect("reserved");
    nv.hide(&memory);
    nv.release(memory);
    drop(far);
}

#[test]
fn hidden_memory_is_not_seen_by_its_gpu() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let memory = nv.allocate(4096, Purpose::Data).expect("memory");
    let seen = |fake: &Fake| fake.state().ranges[&memory.address].1.len();
    assert_eq!(seen(&fake), 1);
    nv.hide(&memory);
    assert_eq!(seen(&fake), 0);
    let address = memory.address;
    nv.release(memory);
    assert!(!fake.state().ranges.contains_key(&address));
}

#[test]
fn memory_of_the_caller_is_seen_at_its_place_in_its_pages() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let mut own = vec![0u8; 20_000];
    let cpu = NonNull::from(&mut own[5]);
    let memory = nv.adopt(cpu, 10_000, false).expect("adopted");
    assert_eq!(memory.address % 4096, cpu.as_ptr().addr() as u64 % 4096);
    assert!(memory.cpu == cpu && !memory.writable && memory.origin == Origin::Caller);
    // The same pages once more.
    let again = nv.adopt(cpu, 100, true).expect("adopted");
    assert_ne!(again.address, memory.address);
    nv.hide(&memory);
    nv.hide(&again);
    drop((backend, _port));
    is_empty(&fake);
}

#[test]
fn too_much_memory_is_said_to_be() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let nv = inside(&backend);
    let before = fake.state().left();
    for bytes in [1 << 41, usize::MAX - 5] {
        let e = nv.allocate(bytes, Purpose::Data).expect_err("too much");
        assert!(matches!(e, Error::OutOfMemory { .. }), "{e}");
    }
    assert_eq!(fake.state().left(), before);
}

#[test]
fn every_call_may_fail_once() {
    each_call_fails(1, |fake| {
        let (backend, _port) = open_as(fake, None)?;
        all_purposes(inside(&backend))?;
        let mut own = vec![0u8; 10_000];
        let memory = backend.adopt(NonNull::from(&mut own[0]), 9000, true)?;
        backend.hide(&memory);
        Ok(())
    });
}

#[test]
fn gpus_of_a_process_see_each_other_at_the_same_address() {
    let fake = Fake::new(2);
    let process = Process::open_as(&fake.system(), None).expect("all is there");
    let (one, _port) = open(&process, 0, &options()).expect("all is there");
    let (two, _port_2) = open(&process, 1, &options()).expect("all is there");
    let memory = one.allocate(1 << 16, Purpose::Data).expect("memory");
    let seen = |fake: &Fake| fake.state().ranges[&memory.address].1.len();
    let view = two.import(&memory, &*one).expect("peers");
    assert_eq!((view.address, view.origin), (memory.address, Origin::Peer));
    assert_eq!((seen(&fake), fake.state().peers.len()), (2, 1));
    let again = two.import(&memory, &*one).expect("known");
    two.hide(&view);
    assert_eq!(seen(&fake), 2);
    two.hide(&again);
    assert_eq!(seen(&fake), 1);
    // And the other way, without asking twice.
    let other = two.allocate(64, Purpose::Signals).expect("memory");
    let view = one.import(&other, &*two).expect("peers");
    assert_eq!(fake.state().peers.len(), 1);
    one.hide(&view);
    for (of, memory) in [(&one, memory), (&two, other)] {
        of.hide(&memory);
        of.release(memory);
    }
    drop((one, two, _port, _port_2, process));
    is_empty(&fake);
}

#[test]
fn times_of_the_gpu_are_times_of_the_host() {
    let fake = Fake::new(1);
    let (backend, _port) = opened(&fake);
    let now = backend.now_ns();
    let raw = fake.state().time + 1000;
    let told = backend.timestamp_ns(raw);
    assert!(told.abs_diff(now) < 1_000_000_000, "{told} at {now}");
    assert!(backend.timestamp_ns(raw + 500) >= told);
    assert!(backend.clock_error_ns() > 0);
}
