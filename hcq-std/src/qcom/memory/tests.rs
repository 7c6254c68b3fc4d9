//! Who has memory that is forgotten, on a fake kernel.

use super::*;
use crate::kgsl::Device;
use crate::kgsl::fake::Fake;

fn table(fake: &Arc<Fake>) -> Table {
    let driver: Arc<dyn Driver> = Arc::new(Device::open(&fake.system()).expect("the fake GPU"));
    Table::new(&driver)
}

#[test]
fn the_memory_of_others_is_theirs_alone_when_it_is_forgotten() {
    for origin in [Origin::Caller, Origin::Peer] {
        let fake = Fake::new();
        let table = table(&fake);
        let mut words = vec![0u64; 64];
        let cpu = NonNull::new(words.as_mut_ptr().cast()).expect("not null");
        let memory = if origin == Origin::Peer {
            let theirs = Memory {
                cpu,
                len: 512,
                address: 0,
                writable: true,
                origin: Origin::Driver,
            };
            table.import(&theirs).expect("pages")
        } else {
            table.adopt(cpu, 512, true).expect("pages")
        };
        assert_eq!(memory.origin, origin);
        // A copy queue's thread is not through with what it did last.
        let held = table.find(memory.address, 512, true).expect("known");
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            drop(held);
        });
        table.hide(&memory);
        assert!(
            fake.state().objects.is_empty(),
            "{origin:?}: its owner may unmap it now"
        );
        thread.join().expect("lets go");
        assert!(table.find(memory.address, 1, false).is_none());
    }
}

#[test]
fn the_drivers_memory_stays_for_those_who_are_on_it() {
    let fake = Fake::new();
    let table = table(&fake);
    let memory = table.allocate(512, Purpose::Data).expect("memory");
    let held = table.find(memory.address, 512, true).expect("known");
    table.hide(&memory);
    assert!(table.find(memory.address, 1, false).is_none());
    assert_eq!(fake.state().objects.len(), 1, "mapped and alive");
    drop(held);
    assert!(fake.state().objects.is_empty());
}
