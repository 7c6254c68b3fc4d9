use super::*;
use crate::kfd::fake::{Fake, GPU, PEER};

fn open(fake: &Arc<Fake>) -> Arc<Gpu> {
    let process = Process::open(&fake.system()).expect("there");
    Gpu::open(&process, 0).expect("there")
}

fn pend(fake: &Fake, kind: u32, data: kfd::kfd_event_data_union) {
    fake.state().pending.insert(kind, data);
}

fn memory(gpu_id: u32) -> kfd::kfd_event_data_union {
    kfd::kfd_hsa_memory_exception_data {
        failure: kfd::kfd_memory_exception_failure {
            ReadOnly: 1,
            imprecise: 1,
            ..Default::default()
        },
        va: 0x7f00_0000_1000,
        gpu_id,
        ErrorType: 0,
    }
    .into()
}

#[test]
fn waits_end_by_signal_fault_or_time() {
    let fake = Fake::new(&[GPU]);
    let gpu = open(&fake);
    assert_eq!(
        gpu.wait(Duration::from_millis(3)).expect("no error"),
        Woken::Timeout
    );
    let age = kfd::kfd_hsa_signal_event_data { last_event_age: 5 };
    pend(&fake, kfd::KFD_IOC_EVENT_SIGNAL, age.into());
    let seen = gpu.seen();
    assert_eq!(
        gpu.wait_since(seen, Duration::ZERO).expect("no error"),
        Woken::Signal
    );
    assert_eq!((seen, gpu.seen()), (Seen(1), Seen(5)));
    pend(&fake, kfd::KFD_IOC_EVENT_MEMORY, memory(GPU));
    assert_eq!(
        gpu.wait(Duration::from_secs(u64::MAX)).expect("no error"),
        Woken::Fault
    );
    let fault = gpu.fault().expect("told");
    assert_eq!(
        (fault.kind, fault.access),
        (FaultKind::Memory, Access::Write)
    );
    assert_eq!((fault.address, fault.detail), (0x7f00_0000_1000, 0b1010));
    // It stays, with no call.
    let calls = fake.state().calls.len();
    assert_eq!(gpu.wait(Duration::ZERO).expect("no error"), Woken::Fault);
    assert_eq!(fake.state().calls.len(), calls);
    gpu.clear_fault();
    assert_eq!(gpu.fault(), None);
    assert_eq!(gpu.wait(Duration::ZERO).expect("no error"), Woken::Timeout);
}

#[test]
fn old_kernels_are_asked_without_an_age() {
    let fake = Fake::new(&[GPU]);
    fake.state().version = (1, 13);
    let gpu = open(&fake);
    assert_eq!(gpu.seen(), Seen(0));
    pend(&fake, kfd::KFD_IOC_EVENT_SIGNAL, Default::default());
    assert_eq!(gpu.wait(Duration::ZERO).expect("no error"), Woken::Signal);
    assert_eq!(gpu.seen(), Seen(0));
}

#[test]
fn looks_find_faults_and_leave_signals() {
    let fake = Fake::new(&[GPU]);
    let gpu = open(&fake);
    pend(&fake, kfd::KFD_IOC_EVENT_SIGNAL, Default::default());
    assert_eq!(gpu.look_for_fault(), None);
    assert_eq!(fake.state().pending.len(), 1);
    let reset = kfd::kfd_hsa_hw_exception_data {
        reset_type: 0,
        reset_cause: kfd::KFD_HW_EXCEPTION_ECC,
        memory_lost: 1,
        gpu_id: GPU,
    };
    pend(&fake, kfd::KFD_IOC_EVENT_HW_EXCEPTION, reset.into());
    let fault = gpu.look_for_fault().expect("told");
    assert_eq!((fault.kind, fault.detail), (FaultKind::Hardware, 0x1_0100));
    // The first fault is the one that counts.
    pend(&fake, kfd::KFD_IOC_EVENT_MEMORY, memory(GPU));
    assert_eq!(gpu.look_for_fault(), Some(fault));
    // Forgotten with all that came after it.
    gpu.clear_fault();
    assert_eq!(gpu.look_for_fault(), None);
}

#[test]
fn lost_bits_are_the_hardwares_fault() {
    let data = kfd::kfd_hsa_memory_exception_data {
        ErrorType: kfd::KFD_MEM_ERR_POISON_CONSUMED,
        ..Default::default()
    };
    let fault = memory_fault(&data);
    assert_eq!((fault.kind, fault.detail), (FaultKind::Hardware, 0x200));
    let code = kfd::kfd_hsa_memory_exception_data {
        failure: kfd::kfd_memory_exception_failure {
            NoExecute: 1,
            ..Default::default()
        },
        ..Default::default()
    };
    assert_eq!(memory_fault(&code).access, Access::Execute);
}

#[test]
fn a_fault_of_another_gpu_is_not_this_ones() {
    let fake = Fake::new(&[GPU, PEER]);
    let gpu = open(&fake);
    pend(&fake, kfd::KFD_IOC_EVENT_MEMORY, memory(PEER));
    assert_eq!(gpu.wait(Duration::ZERO).expect("no error"), Woken::Signal);
    assert_eq!(gpu.fault(), None);
}

#[test]
fn a_gpu_that_is_gone_is_a_fault() {
    let fake = Fake::new(&[GPU]);
    let gpu = open(&fake);
    fake.state().calls.fail_next(2, Errno::NODEV);
    let e = gpu.wait(Duration::ZERO).expect_err("refused").to_string();
    assert!(
        e.contains("WAIT_EVENTS") && e.contains("the GPU is gone"),
        "{e}"
    );
    assert_eq!(
        gpu.look_for_fault().map(|f| f.kind),
        Some(FaultKind::Hardware)
    );
}
