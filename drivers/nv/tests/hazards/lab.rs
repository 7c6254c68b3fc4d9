//! A queue over memory of its own, for tests.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, SignalAt};
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::value::Value;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::device::Device;
use hcq_nv::kernel::{Bank, Kernel, Local, Origin};
use hcq_nv::local_memory::LocalMemory;
use hcq_nv::qmd::Fields;

pub(crate) const QMD: u64 = 0x12_3456_0000;
pub(crate) const KERNARGS: u64 = 0x34_5678_0000;
pub(crate) const WFI: [u32; 2] = [0x2001_001e, 0];

pub(crate) fn device(name: &str) -> Device {
    Device::new(Chip::named(name).expect("a chip"))
}

pub(crate) fn kernel(device: &Device) -> Kernel {
    let len = device.chip().bank_words.len as u32 * 4;
    let mut banks = [None; 8];
    banks[0] = Some(Bank {
        address: 0,
        bytes: len + 16,
    });
    Kernel {
        entry: 0x1_0000,
        code_bytes: 0x400,
        registers: 32,
        barriers: 0,
        shared_bytes: 1024,
        local: Local::High(0),
        banks,
        arguments_at: len,
        max_group: 1024,
        block: None,
        origin: Origin::Cuda,
    }
}

pub(crate) const NONE: ArgLayout<'static> = ArgLayout {
    slots: &[],
    size: 0,
    align: 8,
};

/// What a queue over its own memory records, launches included.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) words: Vec<u32>,
    pub(crate) qmds: Vec<u64>,
    pub(crate) bank: Vec<u64>,
}

impl Bench {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            device: device(name),
            words: vec![0; 256],
            qmds: vec![0; 512],
            bank: vec![0; 256],
        }
    }

    pub(crate) fn record(
        &mut self,
        list: PatchList<'_>,
        script: impl Fn(&mut Script<'_, '_, '_>),
    ) -> Vec<u32> {
        let program = Program::new(
            &self.device,
            &kernel(&self.device),
            NONE,
            &LocalMemory::NONE,
        );
        let memory = Region::from_words(&mut self.qmds, QMD);
        let mut script_of = Script {
            q: NvCompute::new(
                &self.device,
                &mut self.words,
                Qmds::new(memory, RegionId(1)),
                list,
            ),
            program: &program.expect("a program"),
            bank: Region::from_words(&mut self.bank, KERNARGS),
        };
        script(&mut script_of);
        script_of.q.words().to_vec()
    }

    pub(crate) fn qmd(&self, n: usize) -> Vec<u32> {
        let bytes = self.device.chip().qmd.bytes().next_multiple_of(256);
        let words = self
            .qmds
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32]);
        words
            .skip(n * bytes / 4)
            .take(self.device.chip().qmd.words)
            .collect()
    }

    pub(crate) fn field(&self, n: usize, name: &str) -> u32 {
        let words = self.qmd(n);
        let fields = Fields::new(self.device.chip().qmd, &words).expect("long enough");
        fields
            .get(name)
            .unwrap_or_else(|| panic!("no field {name}"))
    }
}

pub(crate) struct Script<'m, 'q, 'p> {
    pub(crate) q: NvCompute<'m, 'q>,
    pub(crate) program: &'p Program<'p>,
    pub(crate) bank: Region<'q>,
}

impl Script<'_, '_, '_> {
    pub(crate) fn exec(&mut self) -> Result<(), RecordError> {
        self.exec_of(
            [1u32, 1, 1].map(Value::from),
            [32u32, 1, 1].map(Value::from),
        )
    }

    pub(crate) fn exec_of(
        &mut self,
        groups: [Value; 3],
        local: [Value; 3],
    ) -> Result<(), RecordError> {
        let size = self.program.kernargs_size();
        let launch = Launch {
            program: self.program,
            args: &[],
            kernargs: Block::new(&mut self.bank, RegionId(2), 0, size).expect("inside"),
            groups,
            local,
            local_memory: 0,
        };
        self.q.exec(launch).map(|_| ())
    }
}

pub(crate) fn signal(address: u64) -> SignalAt {
    Value::from(address).into()
}
