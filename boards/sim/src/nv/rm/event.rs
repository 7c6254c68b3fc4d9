//! Events that make a file readable: `allocate_os_event` of `osapi.c`, `eventConstruct_IMPL` of `event.c`.

use hcq_uapi::nv::{
    NV_ERR_INVALID_ARGUMENT, NV_ERR_INVALID_CLASS, NV_ERR_INVALID_EVENT, NV_ERR_INVALID_OBJECT,
    NV01_EVENT_OS_EVENT, NV0005_ALLOC_PARAMETERS,
};

use super::super::Nv;
use super::super::queue::ChannelId;
use super::{Kind, Making};
use crate::machine::FileId;

impl Nv {
    /// `NV_ESC_ALLOC_OS_EVENT`: the file takes events of a client, under the number that the client has for it.
    pub(super) fn alloc_os_event(
        &mut self,
        file: FileId,
        client: u32,
        number: u32,
    ) -> Result<(), u32> {
        self.client(file, client)?;
        if self.os_events.contains_key(&(client, number)) {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let open = self.files.get_mut(&file).ok_or(NV_ERR_INVALID_ARGUMENT)?;
        open.events.get_or_insert(0);
        self.os_events.insert((client, number), file);
        Ok(())
    }

    /// An event object: of which other object, and which file it makes readable.
    pub(super) fn make_event(&mut self, making: &Making) -> Result<(Kind, Vec<u32>), u32> {
        let params: NV0005_ALLOC_PARAMETERS = self.params(making.params)?;
        if params.hClass != NV01_EVENT_OS_EVENT {
            return Err(NV_ERR_INVALID_CLASS);
        }
        if params.hParentClient != 0 && params.hParentClient != making.client {
            return Err(NV_ERR_INVALID_OBJECT);
        }
        let client = self
            .clients
            .get(&making.client)
            .ok_or(NV_ERR_INVALID_OBJECT)?;
        client.object(params.hSrcResource)?;
        let number = u32::try_from(params.data).map_err(|_| NV_ERR_INVALID_EVENT)?;
        let file = self.os_events.get(&(making.client, number)).copied();
        let file = file.ok_or(NV_ERR_INVALID_EVENT)?;
        let kind = Kind::Event {
            file,
            source: params.hSrcResource,
        };
        Ok((kind, vec![params.hSrcResource]))
    }

    /// Something happened on a channel: events of the channel, of what is on it and of its GPU make their files readable.
    pub(in crate::nv) fn notify(&mut self, channel: ChannelId) {
        let Some(state) = self.channels.get(&channel) else {
            return;
        };
        let gpu = state.gpu;
        let Some(client) = self.clients.get(&state.client) else {
            return;
        };
        let concerns = |handle: u32| match client.objects.get(&handle).map(|object| &object.kind) {
            Some(&Kind::Channel(id) | &Kind::Engine(id)) => id == channel,
            Some(&Kind::Subdevice { gpu: of }) => of == gpu,
            _ => false,
        };
        let told: Vec<FileId> = client
            .objects
            .values()
            .filter_map(|object| match object.kind {
                Kind::Event { file, source } if concerns(source) => Some(file),
                _ => None,
            })
            .collect();
        for file in told {
            if let Some(count) = self
                .files
                .get_mut(&file)
                .and_then(|open| open.events.as_mut())
            {
                *count = count.saturating_add(1);
                self.news = true;
            }
        }
    }
}
