//! [`Message`]: how a node is sent.
//!
//! ```text
//! BOWTIE  version (2 bytes)  header: length (4), JSON  parts: count (4), then of each: length (4), bytes
//! ```
//!
//! Numbers are little-endian. A part is a plan as DataFusion sends it.

use datafusion::common::{exec_datafusion_err, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    AsExecutionPlan, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use serde_json::{Value, json};
use std::sync::Arc;

const MAGIC: &[u8] = b"BOWTIE";

/// Of the form of messages. A change of what they say is another version.
const VERSION: u16 = 1;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A download with all device nodes below it.
    Region,
    /// One of these.
    Part,
    Clusters,
    /// In a region: one of its inputs.
    Input,
    /// In a region: a join that stands for several nodes of DataFusion.
    ExtendedJoin,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Region, "region"),
    (Kind::Part, "part"),
    (Kind::Clusters, "clusters"),
    (Kind::Input, "input"),
    (Kind::ExtendedJoin, "extended join"),
];

#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) header: Value,
    pub(super) parts: Vec<Vec<u8>>,
}

impl Message {
    pub(super) fn new(kind: Kind, header: Value) -> Self {
        Self {
            kind,
            header,
            parts: vec![],
        }
    }

    /// Adds a plan.
    pub(super) fn add(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let mut bytes = vec![];
        let plan = converter.execution_plan_to_proto(plan, codec)?;
        plan.try_encode(&mut bytes)?;
        self.parts.push(bytes);
        Ok(())
    }

    /// The plan that is the part with this number.
    pub(super) fn plan(
        &self,
        part: usize,
        codec: &dyn PhysicalExtensionCodec,
        (context, converter): (&TaskContext, &dyn PhysicalProtoConverterExtension),
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let bytes = self.parts.get(part);
        let bytes = bytes.ok_or_else(|| exec_datafusion_err!("a message of bowtie is cut off"))?;
        let plan = PhysicalPlanNode::try_decode(bytes)?;
        let context = PhysicalPlanDecodeContext::new(context, codec);
        converter.proto_to_execution_plan(&plan, &context)
    }

    /// # Errors
    /// If a part has 4 GiB or more, as rows of memory may.
    pub(super) fn write(&self, buffer: &mut Vec<u8>) -> Result<()> {
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let mut header = self.header.clone();
        header["kind"] = json!(kind.map(|(_, name)| name));
        header["bowtie"] = json!(env!("CARGO_PKG_VERSION"));
        let header = header.to_string();
        buffer.extend_from_slice(MAGIC);
        buffer.extend_from_slice(&VERSION.to_le_bytes());
        write_bytes(buffer, header.as_bytes())?;
        write_length(buffer, self.parts.len())?;
        self.parts
            .iter()
            .try_for_each(|part| write_bytes(buffer, part))
    }

    /// # Errors
    /// If the bytes are no message, or one of another version.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let Some(bytes) = bytes.strip_prefix(MAGIC) else {
            return exec_err!("a node of a plan that arrived is not one of bowtie's");
        };
        let mut rest = bytes;
        let cut_off = || exec_datafusion_err!("a message of bowtie is cut off");
        let version = take(&mut rest, 2).ok_or_else(cut_off)?;
        let version = u16::from_le_bytes([version[0], version[1]]);
        if version != VERSION {
            return exec_err!(
                "a node of a plan that arrived has version {version} of bowtie's messages, and this process reads version {VERSION}: run the same version of datafusion-bowtie on all machines"
            );
        }
        let header = read_bytes(&mut rest).ok_or_else(cut_off)?;
        let header: Value = serde_json::from_slice(header)
            .map_err(|error| exec_datafusion_err!("a message of bowtie cannot be read: {error}"))?;
        let name = header["kind"].as_str().unwrap_or_default();
        let Some((kind, _)) = KINDS.iter().find(|(_, known)| *known == name) else {
            return exec_err!(
                "a node of a plan that arrived is of the kind '{name}', which this version of datafusion-bowtie does not know"
            );
        };
        let count = take(&mut rest, 4).ok_or_else(cut_off)?;
        let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]);
        let parts = (0..count).map(|_| read_bytes(&mut rest).map(<[u8]>::to_vec));
        Ok(Self {
            kind: *kind,
            parts: parts.collect::<Option<_>>().ok_or_else(cut_off)?,
            header,
        })
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        let number = self.header[name].as_u64()?;
        usize::try_from(number).ok()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.header[name].as_bool().unwrap_or(false)
    }

    pub(super) fn numbers(&self, name: &str) -> Result<Vec<usize>> {
        let numbers = self.header[name].as_array();
        let numbers = numbers.map(|numbers| {
            let numbers = numbers.iter().map(|number| number.as_u64());
            numbers
                .map(|number| usize::try_from(number?).ok())
                .collect()
        });
        let missing = || exec_datafusion_err!("a message of bowtie has no {name}");
        numbers.flatten().ok_or_else(missing)
    }

    /// The error of a message at a place where there is none of its kind.
    pub(super) fn is_misplaced<T>(&self) -> Result<T> {
        internal_err!("bowtie: a message of the kind {:?} is misplaced", self.kind)
    }
}

fn write_length(buffer: &mut Vec<u8>, length: usize) -> Result<()> {
    let length = u32::try_from(length).map_err(|_| {
        exec_datafusion_err!(
            "bowtie: a node of {length} bytes is too large to be sent: keep its rows in files instead of memory"
        )
    })?;
    buffer.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn write_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    write_length(buffer, bytes.len())?;
    buffer.extend_from_slice(bytes);
    Ok(())
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(taken)
}

fn read_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(rest, 4)?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
    take(rest, length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut message = Message::new(Kind::Clusters, json!({ "columns": [1, 0], "fetch": 7 }));
        message.parts = vec![vec![1, 2, 3], vec![]];
        let mut bytes = vec![];
        message.write(&mut bytes).unwrap();
        let read = Message::read(&bytes).unwrap();
        assert_eq!((read.kind, &read.parts), (Kind::Clusters, &message.parts));
        assert_eq!(read.numbers("columns").unwrap(), [1, 0]);
        assert_eq!(read.number("fetch"), Some(7));
        for cut in 0..bytes.len() {
            assert!(Message::read(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = vec![];
        Message::new(Kind::Part, json!({}))
            .write(&mut bytes)
            .unwrap();
        bytes[MAGIC.len()] = 9;
        let error = Message::read(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("version 9") && error.contains("version 1"),
            "{error}"
        );
    }
}
