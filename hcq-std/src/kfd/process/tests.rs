use super::*;
use crate::calls::Counted;
use crate::kfd::Gpu;
use crate::kfd::fake::{Fake, GPU, PEER};
use crate::seam::Owner;

fn open(fake: &Arc<Fake>, ordinal: usize) -> Result<Arc<Gpu>, Error> {
    Gpu::open(&Process::open(&fake.system())?, ordinal)
}

fn refused(fake: &Arc<Fake>) -> String {
    let e = open(fake, 0).expect_err("refused");
    assert_eq!(
        fake.state().left(),
        "bos [], events {}, queues [], pages 0, files []"
    );
    e.to_string()
}

#[test]
fn a_gpu_is_opened_and_given_back() {
    let fake = Fake::new(&[GPU]);
    let gpu = open(&fake, 0).expect("all is there");
    assert_eq!((gpu.name(), gpu.node().gpu_id), ("amd:0", GPU));
    assert_eq!(gpu.process().version(), Version(1, 17));
    assert_eq!(gpu.apertures().gpuvm_limit, (1 << 47) - 1);
    let event = gpu.event();
    let handle = fake.state().page.expect("the first event brings the page");
    let page = fake
        .state()
        .bos
        .get(&handle)
        .map(|b| (b.va, b.size, b.flags));
    let (va, size, flags) = page.expect("allocated");
    assert_eq!((event.mailbox, size), (va + 8 * u64::from(event.id), 32768));
    assert!(flags.contains(kfd::AllocMemFlags::GTT | kfd::AllocMemFlags::UNCACHED));
    assert_eq!(fake.state().events.len(), 3);
    drop(gpu);
    // What the kernel ties to the process stays: both files and the page.
    let left = fake.state().left();
    assert!(
        left.starts_with(
            "bos [], events {}, queues [], pages 0, files [\"/dev/kfd\", \"/dev/dri/renderD128\"]"
        ),
        "{left}"
    );
}

#[test]
fn what_a_process_has_once_is_found_again() {
    let fake = Fake::new(&[GPU, PEER]);
    let first = open(&fake, 0).expect("all is there");
    let again = open(&fake, 0).expect("the same address space");
    let other = open(&fake, 1).expect("the same page");
    assert!(first.process().is_same(other.process()));
    assert_eq!(fake.state().vms.len(), 2);
    assert_eq!(fake.state().events.len(), 9);
    let page = fake.state().page.expect("one page");
    assert_eq!(fake.state().bos[&page].mapped.len(), 2);
    drop((first, again, other));
    open(&fake, 0).expect("after all were closed");
    assert_eq!(fake.state().open_files.len(), 3);
    let opened = fake
        .state()
        .calls
        .iter()
        .filter(|c| **c == Counted::Open)
        .count();
    assert_eq!(opened, 3);
}

#[test]
fn no_node_is_explained() {
    let fake = Fake::new(&[GPU]);
    fake.state().opens.insert(KFD.into(), Errno::NOENT);
    assert!(refused(&fake).contains("the driver is loaded, but this container has no node"));
    fake.state().files.clear();
    assert!(refused(&fake).contains("the amdgpu driver is not loaded"));
    fake.state().opens.insert(KFD.into(), Errno(9999));
    assert!(refused(&fake).contains("dmesg"));
}

#[test]
fn permissions_name_the_group() {
    let fake = Fake::new(&[GPU]);
    fake.state().opens.insert(KFD.into(), Errno::ACCES);
    assert!(refused(&fake).contains("usermod -aG render $USER"));
    let owner = |mode| {
        Some(Owner {
            user: 0,
            group: 109,
            mode,
        })
    };
    fake.state().owner = owner(0o660);
    assert!(refused(&fake).contains("--group-add 109"));
    fake.put(
        "/etc/group",
        "root:x:0:\nbroken\nvideo:x:44:me\nrenderers:x:109:\n",
    );
    assert!(refused(&fake).contains("sudo usermod -aG renderers $USER"));
    fake.state().owner = owner(0o600);
    assert!(refused(&fake).contains("its permissions (600) let no group in"));
    // The render node has its own.
    fake.state().opens.clear();
    fake.state()
        .opens
        .insert("/dev/dri/renderD128".into(), Errno::ACCES);
    fake.state().owner = owner(0o660);
    let e = open(&fake, 0).expect_err("refused").to_string();
    assert!(
        e.contains("open /dev/dri/renderD128") && e.contains("renderers"),
        "{e}"
    );
    fake.state()
        .opens
        .insert("/dev/dri/renderD128".into(), Errno::PERM);
    let e = open(&fake, 0).expect_err("refused").to_string();
    assert!(e.contains("cgroup"), "{e}");
}

#[test]
fn old_and_foreign_interfaces_are_named() {
    let fake = Fake::new(&[GPU]);
    fake.state().version = (1, 8);
    let e = refused(&fake);
    assert!(
        e.contains("interface is 1.8") && e.contains("1.9 or later") && e.contains("Linux 6.1"),
        "{e}"
    );
    fake.state().version = (2, 0);
    assert!(refused(&fake).contains("interface is 2.0; this crate knows major version 1"));
    // Calls that came later are not made.
    fake.state().version = (1, 12);
    fake.state().calls.clear();
    open(&fake, 0).expect("old enough");
    let runtime = Counted::Ioctl(ioctl_number(kfd::AMDKFD_IOC_RUNTIME_ENABLE));
    assert!(!fake.state().calls.contains(&runtime));
}

fn ioctl_number(request: u32) -> u8 {
    hcq_uapi::ioctl::number(request)
}

#[test]
fn a_missing_ordinal_says_what_there_is() {
    let fake = Fake::new(&[GPU, PEER]);
    let e = open(&fake, 2).expect_err("two").to_string();
    assert!(
        e.contains("`amd:2`") && e.contains("there are 2 AMD GPUs, amd:0 to amd:1"),
        "{e}"
    );
    let fake = Fake::new(&[GPU]);
    let path = format!("{}/1/gpu_id", crate::kfd::topology::NODES);
    fake.state().files.insert(path, Err(Errno::PERM));
    let e = open(&fake, 0).expect_err("hidden").to_string();
    assert!(
        e.contains("no AMD GPU is visible") && e.contains("cgroup"),
        "{e}"
    );
}

#[test]
fn another_library_in_the_process_is_named() {
    let fake = Fake::new(&[GPU]);
    fake.state().vms.insert(GPU, 1);
    let e = open(&fake, 0).expect_err("taken").to_string();
    assert!(
        e.contains("ACQUIRE_VM") && e.contains("another library of this process"),
        "{e}"
    );
    assert_eq!(
        fake.state().open_files.len(),
        1,
        "the render node is closed again"
    );
    let fake = Fake::new(&[GPU]);
    fake.state().page = Some(77);
    let e = open(&fake, 0).expect_err("taken").to_string();
    assert!(
        e.contains("CREATE_EVENT") && e.contains("another library"),
        "{e}"
    );
}

#[test]
fn debuggers_and_retries_are_not_needed() {
    for request in [
        kfd::AMDKFD_IOC_RUNTIME_ENABLE,
        kfd::AMDKFD_IOC_SET_XNACK_MODE,
    ] {
        let fake = Fake::new(&[GPU]);
        open(&fake, 0).expect("first, to see the order");
        let call = Counted::Ioctl(ioctl_number(request));
        let at = fake
            .state()
            .calls
            .iter()
            .position(|c| *c == call)
            .expect("it is called");
        let fake = Fake::new(&[GPU]);
        fake.state().calls.fail(at, 1, Errno::BUSY);
        open(&fake, 0).expect("tolerated");
    }
}
