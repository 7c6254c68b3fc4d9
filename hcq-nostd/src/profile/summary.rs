//! What a launch's times say: what it waited for, and who had nothing to do.

use crate::graph::WorkRecord;

/// When a work ran, by one clock for all devices: in nanoseconds of the host, say, through a
/// [`ClockMap`](super::ClockMap) per device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Span {
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

impl Span {
    /// Nanoseconds; zero if the clock went back.
    pub const fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A launch in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Summary {
    /// From the first work's start to the last one's end.
    pub all: Span,
    /// Works of which there are times.
    pub works: u32,
    /// The work that ended last: the critical path's end.
    pub last: u32,
    /// Works on the critical path.
    pub path_works: u32,
    /// Nanoseconds in which a work of the critical path ran.
    pub path_ns: u64,
    /// Nanoseconds between them: what waits, signals and the host cost.
    pub wait_ns: u64,
}

/// A queue's share of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QueueTimes {
    /// Works of which there are times.
    pub works: u32,
    /// Nanoseconds in which at least one of them ran.
    pub busy_ns: u64,
    /// The others of the launch.
    pub idle_ns: u64,
    /// The longest time without a work, inside the launch.
    pub longest_gap_ns: u64,
}

/// A launch's works, what they wait for, and when they ran.
///
/// ```
/// use hcq_nostd::graph::WorkRecord;
/// use hcq_nostd::profile::{Launched, Span};
/// // Works 0 and 1 on two queues; 2 follows both.
/// let works = [
///     WorkRecord::new(0, 0, None),
///     WorkRecord::new(1, 1, None),
///     WorkRecord::new(2, 0, None).waiting(0, 1),
/// ];
/// let edges = [1];
/// let spans = [(0, 10), (2, 30), (35, 40)].map(|(start_ns, end_ns)| Span { start_ns, end_ns });
/// let launched = Launched { works: &works, edges: &edges, span: |w| spans.get(w as usize).copied() };
/// let summary = launched.summary().unwrap();
/// assert_eq!((summary.all.ns(), summary.path_ns, summary.wait_ns), (40, 33, 5));
/// assert!(launched.critical_path(summary.last).eq([2, 1]));
/// let first = launched.queue(0, summary.all);
/// assert_eq!((first.busy_ns, first.idle_ns, first.longest_gap_ns), (15, 25, 25));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Launched<'a, F> {
    /// The works, in program order.
    pub works: &'a [WorkRecord],
    /// What they wait for.
    pub edges: &'a [u32],
    /// When a work ran, if that is known.
    pub span: F,
}

impl<F> Launched<'_, F>
where
    F: Fn(u32) -> Option<Span>,
{
    fn spans(&self) -> impl Iterator<Item = (u32, &WorkRecord, Span)> {
        let all = (0u32..).zip(self.works);
        all.filter_map(|(n, w)| Some((n, w, (self.span)(n)?)))
    }

    /// The launch in a few numbers. `None` if there are no times at all.
    pub fn summary(&self) -> Option<Summary> {
        let mut summary: Option<Summary> = None;
        for (n, _, span) in self.spans() {
            let s = summary.get_or_insert(Summary {
                all: span,
                works: 0,
                last: n,
                path_works: 0,
                path_ns: 0,
                wait_ns: 0,
            });
            s.works = s.works.saturating_add(1);
            s.all.start_ns = s.all.start_ns.min(span.start_ns);
            if span.end_ns > s.all.end_ns {
                (s.all.end_ns, s.last) = (span.end_ns, n);
            }
        }
        let mut s = summary?;
        let mut next: Option<Span> = None;
        for n in self.critical_path(s.last) {
            let Some(span) = (self.span)(n) else { continue };
            s.path_works = s.path_works.saturating_add(1);
            s.path_ns = s.path_ns.saturating_add(span.ns());
            if let Some(next) = next {
                let gap = next.start_ns.saturating_sub(span.end_ns);
                s.wait_ns = s.wait_ns.saturating_add(gap);
            }
            next = Some(span);
        }
        Some(s)
    }

    /// The works that made the launch as long as it was, from the last one back: before each the one that it had to follow
    /// and that ended last, because it waits for it or is behind it on its queue.
    pub fn critical_path(&self, last: u32) -> impl Iterator<Item = u32> {
        core::iter::successors(Some(last), |n| self.before(*n))
    }

    fn before(&self, n: u32) -> Option<u32> {
        let work = self.works.get(n as usize)?;
        let start = (self.span)(n)?.start_ns;
        let waits = work.waits_for(self.edges).iter().copied();
        let on_queue = (0..n).rev().find(|b| {
            let of = self.works.get(*b as usize);
            of.is_some_and(|w| w.queue() == work.queue())
        });
        // Works of one queue may be in flight together: then one did not follow the other.
        let behind = on_queue.filter(|b| (self.span)(*b).is_some_and(|s| s.end_ns <= start));
        let all = waits.filter(|w| *w < n).chain(behind);
        let timed = all.filter_map(|w| Some(((self.span)(w)?.end_ns, w)));
        timed.max().map(|(_, w)| w)
    }

    /// A queue's share of a launch that took `all`.
    pub fn queue(&self, queue: u32, all: Span) -> QueueTimes {
        let mut times = QueueTimes::default();
        let mut end = all.start_ns;
        for (_, _, span) in self.spans().filter(|(_, w, _)| w.queue() == queue) {
            times.works = times.works.saturating_add(1);
            let gap = span.start_ns.saturating_sub(end);
            times.longest_gap_ns = times.longest_gap_ns.max(gap);
            let from = span.start_ns.max(end);
            times.busy_ns = times
                .busy_ns
                .saturating_add(span.end_ns.saturating_sub(from));
            end = end.max(span.end_ns);
        }
        let gap = all.end_ns.saturating_sub(end);
        times.longest_gap_ns = times.longest_gap_ns.max(gap);
        times.idle_ns = all.ns().saturating_sub(times.busy_ns);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::vec::Vec;

    /// Random works run one after the other where they have to, with gaps.
    fn random(rng: &mut Rng) -> (Vec<WorkRecord>, Vec<u32>, Vec<Span>) {
        let (mut works, mut edges, mut spans) = (Vec::new(), Vec::new(), Vec::<Span>::new());
        let n = 1 + rng.below(20) as u32;
        for i in 0..n {
            let queue = rng.below(3) as u32;
            let first = edges.len() as u32;
            for before in 0..i {
                if rng.one_in(6) {
                    edges.push(before);
                }
            }
            let work = WorkRecord::new(i, queue, None).waiting(first, edges.len() as u32 - first);
            let mut free = 100;
            for before in 0..i {
                let follows = works.get(before as usize).map(WorkRecord::queue) == Some(queue)
                    || work.waits_for(&edges).contains(&before);
                if follows {
                    free = free.max(spans[before as usize].end_ns);
                }
            }
            let start_ns = free + rng.below(5);
            let end_ns = start_ns + 1 + rng.below(50);
            works.push(work);
            spans.push(Span { start_ns, end_ns });
        }
        (works, edges, spans)
    }

    #[test]
    fn path_and_gaps_fill_the_launch() {
        for seed in 0..500 {
            let (works, edges, spans) = random(&mut Rng(seed));
            let launched = Launched {
                works: &works,
                edges: &edges,
                span: |w| spans.get(w as usize).copied(),
            };
            let s = launched.summary().unwrap();
            assert_eq!(s.works as usize, works.len());
            let path: Vec<u32> = launched.critical_path(s.last).collect();
            assert_eq!(path.len(), s.path_works as usize);
            assert!(path.iter().rev().is_sorted());
            let first = spans[*path.last().unwrap() as usize];
            assert_eq!(
                s.path_ns + s.wait_ns,
                s.all.end_ns - first.start_ns,
                "seed {seed}"
            );
            // The first one on the path followed nobody.
            assert!(first.start_ns < 105);
            for queue in 0..3 {
                let q = launched.queue(queue, s.all);
                let mine = spans.iter().zip(&works).filter(|(_, w)| w.queue() == queue);
                assert_eq!(q.busy_ns, mine.map(|(s, _)| s.ns()).sum::<u64>());
                assert_eq!(q.busy_ns + q.idle_ns, s.all.ns());
                assert!(q.longest_gap_ns <= q.idle_ns);
            }
        }
    }

    #[test]
    fn works_in_flight_together_are_counted_once() {
        let works = [WorkRecord::new(0, 0, None), WorkRecord::new(1, 0, None)];
        let spans = [(0, 10), (5, 12)].map(|(start_ns, end_ns)| Span { start_ns, end_ns });
        let launched = Launched {
            works: &works,
            edges: &[],
            span: |w| spans.get(w as usize).copied(),
        };
        let s = launched.summary().unwrap();
        assert!(launched.critical_path(s.last).eq([1]));
        assert_eq!(launched.queue(0, s.all).busy_ns, 12);
    }

    #[test]
    fn no_times_no_summary_and_edges_that_lead_nowhere_end() {
        let works = [WorkRecord::new(0, 0, None).waiting(0, 9), WorkRecord::EMPTY];
        let none = Launched {
            works: &works,
            edges: &[1, 0, 7],
            span: |_| None,
        };
        assert_eq!(none.summary(), None);
        let always = Launched {
            works: &works,
            edges: &[1, 0, 7],
            span: |_| {
                Some(Span {
                    start_ns: u64::MAX,
                    end_ns: 0,
                })
            },
        };
        assert!(always.critical_path(1).count() <= 2);
        assert!(always.summary().is_some());
    }
}
