//! The resource manager: `/dev/nvidiactl`, `/dev/nvidiaN`.
//!
//! A process makes a tree of objects: a client, below it devices, below those memory, address spaces, groups of channels. Each
//! has a class, a handle that the process may choose, and a parent of a class that `resource_list.h` allows. What a call does
//! wrong is told by a status in its argument; only what the file itself does not take is an error number.
//!
//! | module | what |
//! |---|---|
//! | `class` | classes: what they hang below, what they take |
//! | `escape` | the requests of the files |
//! | `make` | objects of devices and memory |
//! | `fifo` | groups, channels, and what is on them |
//! | `control` | commands |
//! | `map` | mappings, of the host and of RM's own address spaces |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hcq_uapi::nv::{
    NV_ERR_INSERT_DUPLICATE_NAME, NV_ERR_INSUFFICIENT_RESOURCES, NV_ERR_INVALID_ADDRESS,
    NV_ERR_INVALID_ARGUMENT, NV_ERR_INVALID_CLASS, NV_ERR_INVALID_CLIENT,
    NV_ERR_INVALID_OBJECT_HANDLE, NV_ERR_INVALID_OBJECT_PARENT, NV_ERR_OBJECT_NOT_FOUND,
    NVOS21_PARAMETERS, Params,
};

use super::Nv;
use super::memory::{Memory, SpaceId};
use super::queue::{ChannelId, GroupId};
use crate::machine::{FileId, user};

mod class;
mod control;
mod escape;
mod event;
mod fifo;
mod make;
mod map;

pub(super) use class::Family;
pub(super) use event::{Event, OsEvent, Pending};

/// `RS_CLIENT_HANDLE_BASE`: what the handles of clients begin with.
const CLIENT_BASE: u32 = 0xC1D0_0000;
/// `RS_UNIQUE_HANDLE_BASE`, `RS_UNIQUE_HANDLE_RANGE`: handles of RM's own choice.
const UNIQUE_BASE: u32 = 0xCAF0_0000;
const UNIQUE_RANGE: u32 = 0x0008_0000;

/// What an object stands for.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Client,
    Device {
        gpu: usize,
        /// `NV_DEVICE_ALLOCATION_VAMODE_*`.
        mode: u32,
        /// The device's own address space, once somebody has asked for it.
        space: Option<SpaceId>,
    },
    Subdevice {
        gpu: usize,
        /// What it tells of: an index, and `NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_*`.
        told: BTreeMap<u32, u32>,
    },
    Space(SpaceId),
    Memory(Arc<Memory>),
    /// Addresses of an address space, for mappings.
    Virtual {
        space: Option<SpaceId>,
        first: u64,
        last: u64,
    },
    Group(GroupId),
    /// A context of a group, with the address space of the channels that use it.
    Share {
        group: GroupId,
        space: SpaceId,
    },
    Channel(ChannelId),
    /// An engine's class on a channel.
    Engine(ChannelId),
    /// A debugger of a compute object.
    Debugger(ChannelId),
    /// An event of another object that makes a file readable.
    Event(Event),
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// The handle of what it hangs below; 0 for a client.
    pub(super) parent: u32,
    pub(super) class: u32,
    pub(super) family: Family,
    pub(super) kind: Kind,
    /// Handles of others that must not go before it: `refAddDependant`.
    pub(super) needs: Vec<u32>,
}

/// A client: the root of a tree.
#[derive(Debug)]
pub(super) struct Client {
    /// The file of `/dev/nvidiactl` that it was made with.
    pub(super) file: FileId,
    pub(super) objects: BTreeMap<u32, Object>,
    next: u32,
}

impl Client {
    pub(super) fn object(&self, handle: u32) -> Result<&Object, u32> {
        self.objects.get(&handle).ok_or(NV_ERR_OBJECT_NOT_FOUND)
    }

    /// The GPU of the device that an object hangs below, or is.
    pub(super) fn gpu_of(&self, handle: u32) -> Option<usize> {
        let mut at = handle;
        // No object is deeper than this: `RS_MAX_RESOURCE_DEPTH`.
        for _ in 0..6 {
            let object = self.objects.get(&at)?;
            match object.kind {
                Kind::Device { gpu, .. } | Kind::Subdevice { gpu, .. } => return Some(gpu),
                _ => at = object.parent,
            }
        }
        None
    }

    /// The handle of the device that an object hangs below, or is.
    pub(super) fn device_of(&self, handle: u32) -> Option<u32> {
        let mut at = handle;
        for _ in 0..6 {
            let object = self.objects.get(&at)?;
            match object.kind {
                Kind::Device { .. } => return Some(at),
                _ => at = object.parent,
            }
        }
        None
    }
}

/// What a new object is made of, checked as far as its class is known.
pub(super) struct Making {
    pub(super) client: u32,
    pub(super) parent: u32,
    pub(super) class: u32,
    /// Address of the class's parameters, or 0.
    pub(super) params: u64,
    /// The GPU that the parent is of.
    pub(super) gpu: Option<usize>,
}

impl Nv {
    /// `clientValidate`: the client, if it is there and this file's.
    pub(super) fn client(&self, file: FileId, handle: u32) -> Result<&Client, u32> {
        let client = self.clients.get(&handle).ok_or(NV_ERR_INVALID_CLIENT)?;
        if client.file == self.client_file(file) {
            Ok(client)
        } else {
            Err(NV_ERR_INVALID_CLIENT)
        }
    }

    /// `secInfo.clientOSInfo` of `RmIoctl`: the file that a GPU's file is registered with, or itself.
    fn client_file(&self, file: FileId) -> FileId {
        let open = self.files.get(&file);
        open.and_then(|open| open.control).unwrap_or(file)
    }

    pub(super) fn object_mut(&mut self, client: u32, handle: u32) -> Option<&mut Object> {
        self.clients.get_mut(&client)?.objects.get_mut(&handle)
    }

    /// The parameters of a class or a command, as long as this branch has them.
    pub(super) fn params<T: Params>(&self, address: u64) -> Result<T, u32> {
        let mut params = T::default();
        let bytes = params.as_mut_bytes().get_mut(..T::len(self.abi));
        let bytes = bytes.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        user::read(address, bytes).map_err(|_| NV_ERR_INVALID_ADDRESS)?;
        Ok(params)
    }

    /// Hands parameters back.
    pub(super) fn give<T: Params>(&self, address: u64, params: &T) -> Result<(), u32> {
        let bytes = params.as_bytes().get(..T::len(self.abi));
        let bytes = bytes.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        user::write(address, bytes).map_err(|_| NV_ERR_INVALID_ADDRESS)
    }

    /// `serverAllocClient`. The handle, which is the client's and its first object's.
    fn make_client(&mut self, file: FileId, wanted: u32) -> Result<u32, u32> {
        let handle = if wanted == 0 {
            loop {
                self.next_client += 1;
                let handle = CLIENT_BASE | (self.next_client & 0xF_FFFF);
                if !self.clients.contains_key(&handle) {
                    break handle;
                }
            }
        } else {
            wanted
        };
        if self.clients.contains_key(&handle) {
            return Err(NV_ERR_INSERT_DUPLICATE_NAME);
        }
        let root = Object {
            parent: 0,
            class: class::ROOT,
            family: Family::Client,
            kind: Kind::Client,
            needs: Vec::new(),
        };
        let client = Client {
            file: self.client_file(file),
            objects: BTreeMap::from([(handle, root)]),
            next: 0,
        };
        self.clients.insert(handle, client);
        Ok(handle)
    }

    /// `serverAllocResource`: the new object's handle.
    fn alloc(&mut self, file: FileId, args: &NVOS21_PARAMETERS) -> Result<u32, u32> {
        let (client, wanted) = (args.hRoot, args.hObjectNew);
        let (class, params) = (args.hClass, args.pAllocParms);
        let known = class::find(class).ok_or(NV_ERR_INVALID_CLASS)?;
        known.check_params(self.abi, params, args.paramsSize)?;
        if known.family == Family::Client {
            return self.make_client(file, client);
        }
        // A client that is the object's handle too has no parent that it could hang below.
        if wanted == client && client != 0 {
            self.client(file, client)?;
            return Err(NV_ERR_INVALID_OBJECT_PARENT);
        }
        let parent = if args.hObjectParent == 0 {
            client
        } else {
            args.hObjectParent
        };
        let owner = self.client(file, client)?;
        let above = owner.object(parent)?;
        if !known.parents.is_empty() && !known.parents.contains(&above.family) {
            return Err(NV_ERR_INVALID_OBJECT_PARENT);
        }
        let gpu = owner.gpu_of(parent);
        let handle = self.new_handle(client, wanted)?;
        let making = Making {
            client,
            parent,
            class,
            params,
            gpu,
        };
        let (kind, needs) = self.make(file, known.family, &making)?;
        let object = Object {
            parent,
            class,
            family: known.family,
            kind,
            needs,
        };
        let owner = self.clients.get_mut(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        owner.objects.insert(handle, object);
        Ok(handle)
    }

    /// `clientAssignResourceHandle`.
    pub(super) fn new_handle(&mut self, client: u32, wanted: u32) -> Result<u32, u32> {
        let owner = self.clients.get_mut(&client).ok_or(NV_ERR_INVALID_CLIENT)?;
        if wanted == client {
            return Err(NV_ERR_INVALID_OBJECT_HANDLE);
        }
        if wanted != 0 {
            return if owner.objects.contains_key(&wanted) {
                Err(NV_ERR_INSERT_DUPLICATE_NAME)
            } else {
                Ok(wanted)
            };
        }
        for _ in 0..UNIQUE_RANGE {
            let handle = UNIQUE_BASE + owner.next % UNIQUE_RANGE;
            owner.next = owner.next.wrapping_add(1);
            if !owner.objects.contains_key(&handle) && handle != client {
                return Ok(handle);
            }
        }
        Err(NV_ERR_INSUFFICIENT_RESOURCES)
    }

    /// The constructor of a class.
    fn make(
        &mut self,
        file: FileId,
        family: Family,
        making: &Making,
    ) -> Result<(Kind, Vec<u32>), u32> {
        let alone = |kind: Kind| (kind, Vec::new());
        match family {
            Family::Client => Err(NV_ERR_INVALID_CLASS),
            Family::Device => self.make_device(making).map(alone),
            Family::Subdevice => self.make_subdevice(making).map(alone),
            Family::Space => self.make_space(making).map(alone),
            Family::System => self.make_system(making).map(alone),
            Family::Video => self.make_video(making).map(alone),
            Family::Virtual => self.make_virtual(making),
            Family::Doorbells => self.make_doorbells(making).map(alone),
            Family::Group => self.make_group(making),
            Family::Share => self.make_share(making),
            Family::Channel => self.make_channel(making),
            Family::Engine => self.make_engine(making).map(alone),
            Family::Debugger => self.make_debugger(file, making),
            Family::Event => self.make_event(making),
        }
    }

    /// `serverFreeResourceTree`: an object, what hangs below it, and what needs one of these.
    pub(super) fn free(&mut self, file: FileId, client: u32, handle: u32) -> Result<(), u32> {
        self.client(file, client)?.object(handle)?;
        self.free_tree(client, handle);
        Ok(())
    }

    fn free_tree(&mut self, client: u32, handle: u32) {
        let Some(owner) = self.clients.get_mut(&client) else {
            return;
        };
        // Everything that goes, those that depend on others first.
        let mut order: Vec<u32> = Vec::new();
        let mut seen: BTreeSet<u32> = BTreeSet::from([handle]);
        let mut open = vec![handle];
        while let Some(at) = open.pop() {
            order.push(at);
            for (&below, object) in &owner.objects {
                if (object.parent == at || object.needs.contains(&at)) && seen.insert(below) {
                    open.push(below);
                }
            }
        }
        for at in order.into_iter().rev() {
            let Some(owner) = self.clients.get_mut(&client) else {
                return;
            };
            if let Some(object) = owner.objects.remove(&at) {
                self.forget_source(client, at);
                self.destroy(object);
            }
        }
        if handle == client {
            self.clients.remove(&client);
            self.free_os_events_for(client);
        }
    }

    /// The destructor.
    fn destroy(&mut self, object: Object) {
        match object.kind {
            Kind::Device { space, .. } => {
                if let Some(space) = space {
                    self.release_space(space);
                }
            }
            Kind::Space(space) => self.release_space(space),
            Kind::Group(group) => {
                self.groups.remove(&group);
            }
            Kind::Channel(channel) => self.free_channel(channel),
            Kind::Engine(channel) => {
                if let Some(channel) = self.channels.get_mut(&channel) {
                    channel.objects.remove(object.class);
                }
            }
            Kind::Memory(memory) => {
                memory.maps().clear();
                self.clear_memory(&memory);
            }
            Kind::Client
            | Kind::Subdevice { .. }
            | Kind::Virtual { .. }
            | Kind::Share { .. }
            | Kind::Debugger(_)
            | Kind::Event(_) => {}
        }
    }

    /// No object stands for an address space any more; if nobody else needs it, it goes.
    fn release_space(&mut self, id: SpaceId) {
        if let Some(space) = self.spaces.get_mut(&id) {
            space.object = false;
        }
        self.drop_space(id);
    }

    /// An address space goes once neither an object nor UVM refers to it.
    pub(super) fn drop_space(&mut self, id: SpaceId) {
        let unused = |space: &super::memory::Space| !space.object && space.uvm.is_none();
        if self.spaces.get(&id).is_some_and(unused) {
            self.spaces.remove(&id);
        }
    }

    /// The clients of a file go with it.
    pub(super) fn free_clients(&mut self, file: FileId) {
        let of_file = |(&handle, client): (&u32, &Client)| (client.file == file).then_some(handle);
        let gone: Vec<u32> = self.clients.iter().filter_map(of_file).collect();
        for client in gone {
            self.free_tree(client, client);
        }
    }
}
