//! What a machine does for its drivers, whoever they are: two of them, made for this.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;

/// Calls of [`Fake`].
const WAIT: u32 = 1;
const WAIT_A_MS: u32 = 2;
const TELL: u32 = 3;
const COMMAND: u32 = 4;
const OTHER_FILE: u32 = 5;
const BREAK: u32 = 6;
/// Of the file that has this offset, the mapping is refused after it was made.
const REFUSED: u64 = 0x8000;

/// What a driver was told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Opened(u32),
    Closed(u32),
    Mapped(u64, u64),
    Unmapped(u64, u64),
    Halted(String),
}

/// A driver with two nodes and one queue that counts its turns.
struct Fake {
    name: &'static str,
    block: Arc<Block>,
    told: Arc<Mutex<Vec<Told>>>,
    /// What waits answer.
    word: Option<i32>,
    waits: BTreeMap<u64, ()>,
    news: bool,
    /// Turns that it has something to do in.
    turns: u32,
    panics: bool,
}

impl Fake {
    fn tell(&self, told: Told) {
        self.told.lock().expect("nobody panics here").push(told);
    }
}

impl Driver for Fake {
    fn node(&self, path: &Path) -> Option<u32> {
        let nodes = self.nodes();
        (0..)
            .zip(nodes)
            .find_map(|(number, node)| (node == path).then_some(number))
    }

    fn nodes(&self) -> Vec<PathBuf> {
        let name = self.name;
        vec![
            format!("/dev/{name}").into(),
            format!("/dev/sub/{name}-1").into(),
        ]
    }

    fn open(&mut self, node: u32, _: FileId, write: bool) -> Result<(), i32> {
        if !write {
            return Err(libc::EACCES);
        }
        self.tell(Told::Opened(node));
        Ok(())
    }

    fn close(&mut self, node: u32, _: FileId) {
        self.tell(Told::Closed(node));
    }

    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32> {
        match request {
            WAIT | WAIT_A_MS => {
                self.waits.insert(address, ());
                let limit = (request == WAIT_A_MS).then_some(Duration::from_millis(1));
                let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
                return Ok(Answer::Wait {
                    wait: address,
                    deadline,
                });
            }
            TELL => {
                self.word = Some(i32::try_from(address).expect("small"));
                self.news = true;
            }
            COMMAND => call.command(u32::try_from(address).expect("small"))?,
            OTHER_FILE => {
                let number = i32::try_from(address).expect("small");
                let (node, file) = call.file(number).ok_or(libc::EBADF)?;
                assert_ne!(file, call.file);
                return Ok(Answer::Done(i32::try_from(node).expect("small")));
            }
            BREAK => self.panics = true,
            _ => return Err(libc::ENOTTY),
        }
        Ok(Answer::Done(0))
    }

    fn resume(&mut self, wait: u64) -> Option<Result<i32, i32>> {
        let word = self.word?;
        self.waits.remove(&wait).expect("it waits");
        Some(Ok(word))
    }

    fn expire(&mut self, wait: u64) -> Result<i32, i32> {
        self.waits.remove(&wait).expect("it waits");
        Err(libc::ETIME)
    }

    fn mmap(&mut self, map: &Map) -> Result<View, i32> {
        assert!(map.write || map.offset == 0);
        Ok(View {
            block: Arc::clone(&self.block),
            offset: map.offset,
            at: None,
        })
    }

    fn mapped(&mut self, map: &Map, start: u64) -> Result<(), i32> {
        if map.offset == REFUSED {
            return Err(libc::EADDRINUSE);
        }
        assert!(map.fixed.is_none_or(|fixed| fixed == start));
        self.tell(Told::Mapped(start, map.bytes));
        Ok(())
    }

    fn munmap(&mut self, start: u64, bytes: u64) {
        self.tell(Told::Unmapped(start, bytes));
    }

    fn readable(&mut self, _: u32, _: FileId) -> Result<bool, i32> {
        Ok(self.word.is_some())
    }

    fn tree(&self) -> tree::Tree {
        let mut tree = tree::Tree::default();
        tree.add(format!("/proc/driver/{}/version", self.name), "1\n".into());
        tree
    }

    fn turn(&mut self, _: &mut dyn Executor) -> Turned {
        if std::mem::take(&mut self.panics) {
            panic!("on purpose");
        }
        let Some(turns) = self.turns.checked_sub(1) else {
            return Turned::Idle;
        };
        self.turns = turns;
        self.tell(Told::Opened(100));
        Turned::Moved
    }

    fn has_queues(&self) -> bool {
        true
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    fn late(&mut self, _: Option<u32>, steps: u32) {
        self.turns = steps;
    }

    fn reports(&self) -> &[String] {
        &[]
    }

    fn halt(&mut self, why: &str) {
        self.tell(Told::Halted(why.into()));
    }
}

struct Two {
    machine: Arc<Machine>,
    told: [Arc<Mutex<Vec<Told>>>; 2],
    block: Arc<Block>,
}

fn two() -> Two {
    let store = Store::new().expect("memory");
    let block = store.block(0x10000).expect("memory");
    let told: [Arc<Mutex<Vec<Told>>>; 2] = Default::default();
    let fake = |(name, told): (_, &Arc<Mutex<Vec<Told>>>)| -> Box<dyn Driver> {
        Box::new(Fake {
            name,
            block: Arc::clone(&block),
            told: Arc::clone(told),
            word: None,
            waits: BTreeMap::new(),
            news: false,
            turns: 0,
            panics: false,
        })
    };
    let drivers = ["a", "b"].into_iter().zip(&told).map(fake).collect();
    let config = Config::new("amd-gfx1100")
        .expect("known")
        .pace(Pace::Manual);
    Two {
        machine: Machine::with(config, store, drivers).expect("starts"),
        told,
        block,
    }
}

impl Two {
    fn open(&self, path: &str) -> i32 {
        self.machine.open(Path::new(path), true).expect(path)
    }

    fn call(&self, file: i32, request: u32, argument: u64) -> Result<i32, i32> {
        let argument = with_exposed_provenance_mut(argument as usize);
        // SAFETY: these drivers take numbers.
        unsafe { self.machine.ioctl(file, request.into(), argument) }
    }

    fn told(&self, driver: usize) -> Vec<Told> {
        std::mem::take(&mut self.told[driver].lock().expect("nobody panics here"))
    }
}

#[test]
fn nodes_and_files_are_their_drivers() {
    let two = two();
    let list = |path: &str| two.machine.list(Path::new(path));
    let names = |names: &[&str]| Ok(names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(list("/dev/"), names(&["a", "b", "sub"]));
    assert_eq!(list("/dev/sub"), names(&["a-1", "b-1"]));
    assert_eq!(list("/dev/a"), Err(libc::ENOTDIR));
    assert_eq!(list("/dev/c"), Err(libc::ENOENT));
    assert_eq!(list("/proc/driver"), names(&["a", "b"]));
    let text = two.machine.read(Path::new("/proc/driver/b/version"), 9);
    assert_eq!(text, Ok(b"1\n".to_vec()));

    let denied = two.machine.open(Path::new("/dev/a"), false);
    assert_eq!(denied, Err(libc::EACCES));
    let (a, b, b1) = (
        two.open("/dev/a"),
        two.open("/dev/b"),
        two.open("/dev/sub/b-1"),
    );
    assert_eq!((a, b, b1), (3, 4, 5), "what was refused has no number");
    assert_eq!(two.told(0), [Told::Opened(0)]);
    assert_eq!(two.told(1), [Told::Opened(0), Told::Opened(1)]);
    // Files in arguments: only a driver's own.
    assert_eq!(two.call(b, OTHER_FILE, 5), Ok(1));
    assert_eq!(two.call(a, OTHER_FILE, 5), Err(libc::EBADF));
    assert_eq!(two.call(a, OTHER_FILE, 9), Err(libc::EBADF));
    two.machine.close(b1);
    two.machine.close(b1);
    assert_eq!(two.told(1), [Told::Closed(1)]);
    assert_eq!(two.call(b1, TELL, 1), Err(libc::EBADF));
}

#[test]
fn calls_that_wait_end_with_news_or_with_their_time() {
    let two = two();
    let (a, a1) = (two.open("/dev/a"), two.open("/dev/sub/a-1"));
    assert_eq!(two.call(a, WAIT_A_MS, 7), Err(libc::ETIME));
    let poll = |file, ms| two.machine.poll(file, Duration::from_millis(ms));
    assert_eq!(poll(a, 1), Ok(false));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| two.call(a, WAIT, 8));
        let polls = scope.spawn(|| poll(a1, 60_000));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished() && !polls.is_finished());
        assert_eq!(two.call(a1, TELL, 42), Ok(0));
        assert_eq!(waits.join().expect("it ends"), Ok(42));
        assert_eq!(polls.join().expect("it ends"), Ok(true));
    });
    assert_eq!(poll(99, 1), Err(libc::EBADF));
}

#[test]
fn files_map_parts_of_blocks_and_drivers_hear_where() {
    let two = two();
    let a = two.open("/dev/a");
    let map = |fixed, len, offset| {
        // SAFETY: fixed ranges are reserved by this test.
        let mapped = unsafe { two.machine.mmap(fixed, len, true, true, a, offset) };
        mapped.map(|at| at.as_ptr().expose_provenance() as u64)
    };
    two.told(0);
    two.block.store(0x3008, 77);
    let at = map(None, 0x1800, 0x3000).expect("mapped");
    assert_eq!(word(at + 8).load(Ordering::Relaxed), 77);
    assert_eq!(two.told(0), [Told::Mapped(at, 0x2000)]);
    assert_eq!(map(None, 0x1000, 0x10000), Err(libc::EINVAL));
    assert_eq!(map(None, 0x2000, 0xF000), Err(libc::EINVAL));
    let there = reserve(0x2000);
    assert_eq!(map(Some(pointer(there)), 0x2000, 0x3000), Ok(there));
    assert_eq!(two.told(0), [Told::Mapped(there, 0x2000)]);
    // What the driver does not want is not left behind.
    assert_eq!(map(None, 0x1000, REFUSED), Err(libc::EADDRINUSE));
    // SAFETY: nobody uses it any more.
    unsafe { two.machine.munmap(pointer(at), 0x1800) }.expect("it was mapped");
    for driver in 0..2 {
        assert_eq!(two.told(driver), [Told::Unmapped(at, 0x2000)]);
    }
}

#[test]
fn drivers_take_turns_and_a_panic_stops_one() {
    let two = two();
    two.machine.inject(Script::Late {
        queue: None,
        steps: 3,
    });
    let mut order = Vec::new();
    while two.machine.step() {
        order.push((two.told(0).len(), two.told(1).len()));
    }
    assert_eq!(order, [(1, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 1)]);
    let b = two.open("/dev/b");
    two.told(1);
    assert_eq!(two.call(b, BREAK, 0), Ok(0));
    assert!(two.machine.step());
    assert_eq!(two.told(1), [Told::Halted("on purpose".into())]);
    assert_eq!(two.told(0), []);
    assert!(!two.machine.step());
}

#[test]
fn commands_inside_of_calls_fail_on_demand() {
    let two = two();
    let a = two.open("/dev/a");
    two.machine.inject(Script::Fail {
        call: Call::Command(0x104),
        nth: 2,
        times: 1,
        errno: libc::EIO,
    });
    two.machine.inject(Script::Fail {
        call: Call::Request(TELL),
        nth: 1,
        times: 1,
        errno: libc::ENOMEM,
    });
    assert_eq!(two.call(a, COMMAND, 0x104), Ok(0));
    assert_eq!(two.call(a, COMMAND, 0x105), Ok(0));
    assert_eq!(two.call(a, COMMAND, 0x104), Err(libc::EIO));
    assert_eq!(two.call(a, COMMAND, 0x104), Ok(0));
    assert_eq!(two.call(a, TELL, 1), Err(libc::ENOMEM));
    assert_eq!(two.call(a, TELL, 1), Ok(0));
}
