//! Launches in a device's timeline: busy, late, in error, and across the points that set a slot back.

use crate::scenes::{Home, Rng, Scene, values};
use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_nostd::graph::{
    Busy, DeviceTimelines, Entry, Graph, Instance, InstanceMemory, LaunchError, Memory, SlotAt,
};
use hcq_nostd::mem::{Region, SharedWord, SharedWords};
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::{Point, Timeline};
use hcq_nostd::value::Var;
use hcq_nostd::wait::{Policy, WaitError};

struct Ticks {
    now: u64,
    fault: Option<FaultRecord>,
}

impl Policy for Ticks {
    fn now_ns(&mut self) -> u64 {
        self.now
    }
    fn relax(&mut self, _: u32, _: SharedWord<'_>, _: u64) {
        self.now += 10;
    }
    fn check(&mut self) -> Result<(), FaultRecord> {
        self.fault.map_or(Ok(()), Err)
    }
}

/// A graph of which one device takes part, and values for it.
fn alone() -> (Graph<'static>, Vec<u64>) {
    let scenes = (0..).map(|seed| (Scene::random(&mut Rng(seed)), seed));
    let (scene, seed) = scenes
        .into_iter()
        .find(|(s, _)| s.devices.len() == 1 && s.chores.len() > 3)
        .unwrap();
    let values = values(&scene, &mut Rng(seed));
    (scene.record(None, None).graph, values)
}

fn slots() -> [Signal<'static>; 2] {
    let words: &mut [u64] = zerocopy::transmute_mut!(&mut *vec![0u128; 2].leak());
    let words = SharedWords::new(Region::from_words(words, 0x9000)).unwrap();
    [0, 1].map(|i| Signal::at(words, i, Width::W32).unwrap())
}

fn bound(graph: Graph<'static>) -> Instance<'static> {
    let home = Home::of(&graph, 1);
    let addresses = home.addresses();
    let regions: Vec<Region<'static>> = graph
        .regions()
        .zip(addresses)
        .map(|(r, at)| Region::from_words(vec![0; r.bytes as usize].leak(), at))
        .collect();
    let signals: &mut [u64] =
        zerocopy::transmute_mut!(&mut *vec![0u128; graph.signal_slots()].leak());
    graph
        .bind(InstanceMemory {
            regions: regions.leak(),
            signals: SharedWords::new(Region::from_words(signals, 0x7000)).unwrap(),
            state: vec![0; graph.state_words()].leak(),
            points: vec![Point::ZERO; 1].leak(),
        })
        .unwrap()
}

fn launch(
    instance: &mut Instance<'static>,
    timelines: &mut [Timeline<'static>],
    policy: &mut Ticks,
    busy: Busy,
) -> Result<(), LaunchError> {
    let timelines = &mut *timelines;
    let idle = instance.idle(&mut DeviceTimelines { timelines, policy }, busy)?;
    let t = &mut timelines[0];
    let submission = t.plan().unwrap();
    let entries = [Entry::of(t, &submission).expect("no reset")];
    let mut launch = idle.patch(&entries)?;
    assert_eq!(launch.submit(|_, _, _| Ok::<(), ()>(())), Ok(()));
    t.commit(&submission);
    launch.kickoff(|_| {});
    Ok(())
}

#[test]
fn what_is_in_flight_is_waited_for_with_an_end() {
    let (graph, values) = alone();
    let slots = slots();
    let mut timelines = [Timeline::new(slots, 31).unwrap()];
    let mut policy = Ticks {
        now: 0,
        fault: None,
    };
    let mut instance = bound(graph);
    instance.set_all(Var::new(0), &values).unwrap();
    launch(&mut instance, &mut timelines, &mut policy, Busy::Refuse).unwrap();
    assert_eq!(instance.last(0), Point::from_raw(1));
    let again = launch(&mut instance, &mut timelines, &mut policy, Busy::Refuse);
    let (device, point) = (0, Point::from_raw(1));
    assert_eq!(again, Err(LaunchError::Busy { device, point }));
    let wait = Busy::Wait { timeout_ns: 100 };
    let late = launch(&mut instance, &mut timelines, &mut policy, wait);
    let timeout = WaitError::Timeout {
        wanted: 1,
        seen: 0,
        waited_ns: 100,
    };
    assert_eq!(late, Err(LaunchError::Wait(timeout)));
    // A device in error ends it at once, for those who look too.
    let fault = FaultRecord::new(FaultKind::Memory, 1, 0x10);
    policy.fault = Some(fault);
    let before = policy.now;
    let failed = launch(&mut instance, &mut timelines, &mut policy, wait);
    assert_eq!(failed, Err(LaunchError::Wait(WaitError::Fault(fault))));
    let policy_of = &mut policy;
    let mut all = DeviceTimelines {
        timelines: &mut timelines,
        policy: policy_of,
    };
    let looked = instance.is_idle(&mut all);
    assert_eq!(looked, Err(LaunchError::Wait(WaitError::Fault(fault))));
    assert_eq!(policy.now, before);
    // What was complete before the fault is.
    slots[0].set(1).unwrap();
    launch(&mut instance, &mut timelines, &mut policy, wait).unwrap();
    assert_eq!(instance.last(0), Point::from_raw(2));
}

#[test]
fn entries_are_what_the_timeline_says() {
    let slots = slots();
    let mut t = Timeline::new(slots, 3).unwrap();
    let at = |slot: u64, value| SlotAt {
        address: 0x9000 + slot * 16,
        value,
    };
    let mut resets = 0;
    for n in 1..40u64 {
        let s = t.plan().unwrap();
        let (slot, value) = ((n - 1) / 8 % 2, (n - 1) % 8 + 1);
        match Entry::of(&t, &s) {
            None => {
                assert_eq!(value, 4, "halfway");
                resets += 1;
            }
            Some(entry) => {
                assert_eq!(entry.signal, at(slot, value));
                assert_eq!(entry.point, Point::from_raw(n));
                // Every other point is still in flight.
                let last = n.saturating_sub(2);
                let wait = match n % 2 {
                    0 => at(last / 8 % 2, last % 8 + 1),
                    _ => at(slot, 0),
                };
                assert_eq!(entry.wait, wait, "{n}");
            }
        }
        t.commit(&s);
        if n % 2 == 0 {
            if let Some(slot) = s.reset {
                slots[slot].set(0).unwrap();
            }
            slots[slot as usize].set(value).unwrap();
            assert!(t.is_complete(Point::from_raw(n)).unwrap());
        }
    }
    assert_eq!(resets, 5);
}

#[test]
fn an_entry_for_each_device_or_nothing() {
    let (graph, values) = alone();
    let mut timelines = [Timeline::new(slots(), 31).unwrap()];
    let mut policy = Ticks {
        now: 0,
        fault: None,
    };
    let mut instance = bound(graph);
    let mut all = DeviceTimelines {
        timelines: &mut timelines,
        policy: &mut policy,
    };
    let idle = instance.idle(&mut all, Busy::Refuse).unwrap();
    let none = idle.patch(&[]).map(drop);
    assert_eq!(none, Err(LaunchError::Entries { need: 1, have: 0 }));
    // A variable without a value is named.
    let idle = instance.idle(&mut all, Busy::Refuse).unwrap();
    let unknown = idle.patch(&[Entry::default()]).map(drop);
    assert!(matches!(unknown, Err(LaunchError::Patch(_))), "{unknown:?}");
    instance.set_all(Var::new(0), &values).unwrap();
    let idle = instance.idle(&mut all, Busy::Refuse).unwrap();
    idle.patch(&[Entry::default()]).map(drop).unwrap();
    assert_eq!(Memory::Entries.to_string(), "timeline entries");
}
