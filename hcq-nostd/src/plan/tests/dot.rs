//! Plans as pictures.

use super::*;
use std::string::{String, ToString};

fn dot(scene: &Scene, name: impl Fn(u32) -> String) -> String {
    scene.with(|p| {
        let capacity = p.capacity().unwrap();
        let mut scratch = vec![0; p.scratch_words(&capacity).unwrap()];
        let made = plan(p, &capacity, &mut scratch, |c| scene.route(c)).unwrap();
        made.dot(|task, f| f.write_str(&name(task))).to_string()
    })
}

#[test]
fn every_queue_work_and_wait_is_drawn() {
    let mut s = scene(&[Device::new(1, 1)]);
    s.allocations.push(Allocation::fixed(0));
    s.copy(Access::read(0, 0, 64), Access::write(1, 0, 64));
    s.exec(0, &[Access::read(1, 32, 16), Access::write(0, 64, 64)]);
    s.exec(0, &[Access::read(0, 64, 4)]);
    let picture = dot(&s, |task| std::format!("task {task}"));
    let want = "digraph plan {
  node [shape=box];
  subgraph cluster_0 {
    label=\"device 0 compute 0\";
    work_1 [label=\"task 1\"];
    work_2 [label=\"task 2\"];
    work_1 -> work_2 [style=dotted];
  }
  subgraph cluster_1 {
    label=\"device 0 copy 0\";
    work_0 [label=\"task 0\"];
  }
  entry_0 [shape=ellipse, label=\"entry of device 0\"];
  end_0 [shape=ellipse, label=\"end of device 0\"];
  entry_0 -> work_0 [label=\"device 0 must have entered\"];
  work_0 -> work_1 [label=\"read after write of 1:0x20..0x30\"];
}
";
    assert_eq!(picture, want);
}

#[test]
fn names_cannot_break_out() {
    let mut s = scene(&[Device::new(1, 0)]);
    s.exec(0, &[]);
    let picture = dot(&s, |_| "a\"] ; \\ \n\u{7}b".into());
    assert!(
        picture.contains("work_0 [label=\"a\\\"] ; \\\\ \\n b\"];"),
        "{picture}"
    );
}
