//! Buffers, caller memory, files, sizes that cannot be.

mod common;

use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Counting, device, open, options};
use hcq_std::{Device, Error};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A file that is removed again.
struct File(PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("hcq-std-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes)?;
        Ok(Self(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn sizes_that_cannot_be_are_errors_and_the_device_stays_usable() -> Result {
    let device = device();
    assert!(matches!(
        device.alloc::<u32>(0),
        Err(Error::Size {
            elements: 0,
            size: 4,
            ..
        })
    ));
    assert!(matches!(
        device.alloc::<[u8; 0]>(9),
        Err(Error::Size { size: 0, .. })
    ));
    assert!(matches!(
        device.alloc::<u64>(usize::MAX),
        Err(Error::Size { .. })
    ));
    assert!(matches!(
        device.alloc::<u8>(isize::MAX as usize),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(matches!(
        device.alloc::<u64>(1 << 56),
        Err(Error::OutOfMemory { .. })
    ));
    assert!(device.alloc_from::<f32>(&[]).is_err());
    let e = device
        .alloc::<u8>(1 << 46)
        .expect_err("no machine has that");
    assert!(e.to_string().contains("free buffers first"), "{e}");
    assert_eq!(device.alloc_from(&[5u8])?.to_vec()?, [5]);
    Ok(())
}

#[test]
fn views_are_checked_and_keep_their_buffer() -> Result {
    let device = device();
    let buffer = device.alloc_from(&(0..100u16).collect::<Vec<_>>())?;
    let view = buffer.view(10..=19)?;
    assert_eq!(
        (view.len(), view.size_bytes(), view.is_empty()),
        (10, 20, false)
    );
    assert_eq!(view.address(), buffer.address() + 20);
    for (start, end) in [(0, 101), (100, 100), (60, 50), (usize::MAX, usize::MAX)] {
        assert!(matches!(
            buffer.view(start..end),
            Err(Error::Range { len: 100, .. })
        ));
    }
    assert!(view.view(..11).is_err());
    let inner = view.view(5..)?;
    drop((buffer, view));
    assert_eq!(inner.to_vec()?, [15, 16, 17, 18, 19]);
    assert!(matches!(
        inner.write(&[1, 2]),
        Err(Error::Length {
            need: 5,
            have: 2,
            ..
        })
    ));
    assert!(inner.read(&mut [0; 6]).is_err());
    inner.fill(7)?;
    assert_eq!(inner.to_vec()?, [7; 5]);
    Ok(())
}

#[test]
fn caller_memory_is_a_buffer_until_it_is_dropped() -> Result {
    let device = device();
    let mut memory = vec![1u64; 1000];
    let start = NonNull::new(memory.as_mut_ptr()).ok_or("not null")?;
    // SAFETY: `memory` lives longer than the buffer, and is not touched meanwhile.
    let wrapped = unsafe { device.wrap(start, 1000) }?;
    // SAFETY: refused.
    let again = unsafe { device.wrap(start, 10) };
    assert!(matches!(again, Err(Error::Address { .. })));
    // SAFETY: inside `memory`.
    let off = unsafe { start.byte_add(4) };
    // SAFETY: refused.
    let crooked = unsafe { device.wrap(off, 10) };
    assert!(matches!(crooked, Err(Error::Address { .. })));
    // SAFETY: refused.
    let nothing = unsafe { device.wrap(start, 0) };
    assert!(matches!(nothing, Err(Error::Size { .. })));
    let source = device.alloc_from(&[9u64; 500])?;
    let mut commands = device.copy_queue(0)?.record();
    commands.copy(&wrapped.view(250..750)?, &source)?.submit()?;
    assert_eq!(wrapped.view(249..251)?.to_vec()?, [1, 9]);
    let address = wrapped.address();
    drop(wrapped);
    assert_eq!(
        (memory[249], memory[250], memory[749], memory[750]),
        (1, 9, 9, 1)
    );
    let point = commands.write64(address, 0u64)?.submit()?;
    assert!(
        matches!(point.wait(), Err(Error::Fault(_))),
        "the device has forgotten it"
    );
    assert_eq!(memory[0], 1);
    Ok(())
}

#[test]
fn files_are_sources_of_copies() -> Result {
    let device = device();
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 1000) as u8).collect();
    let file = File::new("source", &bytes)?;
    let mapped = device.map_file(&file.0)?;
    assert_eq!(mapped.size_bytes(), bytes.len());
    let buffer = device.alloc::<u8>(bytes.len())?;
    let mut commands = device.copy_queue(0)?.record();
    let point = commands.copy(&buffer, &mapped)?.submit()?;
    drop(mapped);
    point.wait()?;
    assert_eq!(buffer.to_vec()?, bytes);
    let mapped = device.map_file(&file.0)?;
    let into = commands.copy(&mapped, &buffer).map(|_| ());
    assert!(matches!(into, Err(Error::ReadOnly { .. })));
    assert!(mapped.range(5..5).is_err() && mapped.range(..300_001).is_err());
    let point = commands.write32(mapped.address(), 0u32)?.submit()?;
    assert!(matches!(point.wait(), Err(Error::Fault(_))));
    Ok(())
}

#[test]
fn files_that_cannot_be_mapped() -> Result {
    let device = device();
    let e = device
        .map_file("/nowhere/at/all".as_ref())
        .expect_err("not there");
    assert!(
        matches!(e, Error::File { .. }) && e.to_string().contains("/nowhere/at/all"),
        "{e}"
    );
    let empty = File::new("empty", &[])?;
    let e = device.map_file(&empty.0).expect_err("empty");
    assert!(e.to_string().contains("empty"), "{e}");
    let e = device
        .map_file(&std::env::temp_dir())
        .expect_err("a directory");
    assert!(e.to_string().contains("regular file"), "{e}");
    Ok(())
}

#[test]
fn all_memory_goes_back() -> Result {
    let system = Counting::new();
    let device = open(&options().system(Arc::clone(&system) as _));
    let count = || [&system.maps, &system.unmaps].map(|n| n.load(Ordering::SeqCst));
    let [maps, unmaps] = count();
    {
        let a = device.alloc::<u8>(10 << 20)?;
        let b = device.alloc::<u8>(10 << 20)?;
        let mut commands = device.copy_queue(0)?.record();
        commands.copy(&a, &b)?.submit()?;
        assert_eq!(count(), [maps + 2, unmaps]);
    }
    device.synchronize()?;
    assert_eq!(count(), [maps + 2, unmaps + 2]);
    // A device that was used in every way gives everything back, whatever is dropped last.
    let signals = (0..1000)
        .map(|_| device.signal())
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let big = device.alloc_from(&vec![1u32; 1 << 18])?;
    let mut commands = device.copy_queue(0)?.record();
    for n in 0..20 {
        commands
            .upload(&big, &vec![n; 1 << 18])?
            .signal(&signals[n as usize], 1u64)?
            .submit()?;
    }
    let value = commands.var()?;
    commands.write32(big.address(), value)?;
    let mut bound = commands.bind()?;
    bound.set(value, 7)?;
    bound.submit()?;
    let view = big.view(..1)?;
    drop((device, big, signals));
    drop(bound);
    assert_eq!(view.to_vec()?, [7]);
    drop(view);
    let [maps, unmaps] = count();
    assert_eq!(maps, unmaps);
    Ok(())
}

#[test]
fn handles_are_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    check::<Device>();
    check::<hcq_std::Buffer<f32>>();
    check::<hcq_std::View<f32>>();
    check::<hcq_std::MappedFile>();
    check::<hcq_std::Kernel>();
    check::<hcq_std::Module>();
    check::<hcq_std::Queue>();
    check::<hcq_std::Signal>();
    check::<hcq_std::Point>();
    check::<hcq_std::Error>();
    moves::<hcq_std::Commands>();
    moves::<hcq_std::Bound>();
    moves::<hcq_std::Download<u8>>();
}
