//! A plan as a picture: the DOT language of Graphviz.

use super::explain::Event;
use super::problem::Engine;
use super::steps::{Part, Plan};
use core::fmt::{self, Write};

/// A plan to be written as a graph in DOT; see [`Plan::dot`].
#[derive(Clone, Copy, Debug)]
pub struct Dot<'p, 's, F> {
    plan: &'p Plan<'s>,
    name: F,
}

impl<'s> Plan<'s> {
    /// The plan in DOT, for `dot -Tsvg`: a box for each queue with its works in order, and an arrow for each wait with the
    /// reason beside it. `name` writes the name of a task.
    ///
    /// ```
    /// use hcq_nostd::plan::{Access, Allocation, Device, Problem, Task, plan};
    /// let devices = [Device::new(1, 0)];
    /// let write = [Access::write(0, 0, 64)];
    /// let tasks = [Task::exec(0, &write)];
    /// let allocations = [Allocation::fixed(0)];
    /// let problem = Problem::new(&devices, &allocations, &tasks);
    /// let capacity = problem.capacity()?;
    /// let mut scratch = vec![0; problem.scratch_words(&capacity)?];
    /// let plan = plan(&problem, &capacity, &mut scratch, |_| None)?;
    /// let dot = plan.dot(|task, f| write!(f, "matmul {task}")).to_string();
    /// assert!(dot.contains("work_0 [label=\"matmul 0\"]"));
    /// # Ok::<(), hcq_nostd::plan::PlanError>(())
    /// ```
    pub fn dot<F>(&self, name: F) -> Dot<'_, 's, F>
    where
        F: Fn(u32, &mut dyn fmt::Write) -> fmt::Result,
    {
        Dot { plan: self, name }
    }
}

/// Writes into a quoted string.
struct Quoted<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Quoted<'_, '_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        s.chars().try_for_each(|c| match c {
            '"' | '\\' => {
                self.0.write_char('\\')?;
                self.0.write_char(c)
            }
            '\n' => self.0.write_str("\\n"),
            c if c.is_control() => self.0.write_char(' '),
            c => self.0.write_char(c),
        })
    }
}

/// The node of an event.
struct Id(Event);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Event::Entry { device } => write!(f, "entry_{device}"),
            Event::Work { work } => write!(f, "work_{work}"),
            Event::End { device } => write!(f, "end_{device}"),
        }
    }
}

impl<F> fmt::Display for Dot<'_, '_, F>
where
    F: Fn(u32, &mut dyn fmt::Write) -> fmt::Result,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let works = || (0u32..).map_while(|w| Some((w, self.plan.work(w)?)));
        f.write_str("digraph plan {\n  node [shape=box];\n")?;
        for (index, q) in (0u32..).zip(self.plan.queues()) {
            if q.steps.is_empty() {
                continue;
            }
            let kind = match q.engine {
                Engine::Compute => "compute",
                Engine::Copy => "copy",
            };
            writeln!(f, "  subgraph cluster_{index} {{")?;
            writeln!(f, "    label=\"device {} {kind} {}\";", q.device, q.index)?;
            let mut before = None;
            for (n, work) in works().filter(|(_, w)| w.queue == index) {
                write!(f, "    work_{n} [label=\"")?;
                (self.name)(work.task, &mut Quoted(f))?;
                match work.part {
                    Part::Whole => {}
                    Part::IntoStage { .. } => f.write_str(" (in)")?,
                    Part::OutOfStage { .. } => f.write_str(" (out)")?,
                }
                f.write_str("\"];\n")?;
                if let Some(before) = before {
                    writeln!(f, "    work_{before} -> work_{n} [style=dotted];")?;
                }
                before = Some(n);
            }
            f.write_str("  }\n")?;
        }
        for (device, used) in self.plan.devices() {
            if used {
                writeln!(
                    f,
                    "  entry_{device} [shape=ellipse, label=\"entry of device {device}\"];"
                )?;
                writeln!(
                    f,
                    "  end_{device} [shape=ellipse, label=\"end of device {device}\"];"
                )?;
            }
        }
        for e in self.plan.explain() {
            write!(f, "  {} -> {} [label=\"", Id(e.waits_for), Id(e.waiter))?;
            write!(Quoted(f), "{}", e.reason)?;
            f.write_str("\"];\n")?;
        }
        f.write_str("}\n")
    }
}
