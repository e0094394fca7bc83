//! [`Gpu`]: one card, opened once in the process: its context, its kernels by family, its staging rings.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUfunction_attribute_enum;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaModule, CudaStream, DriverError, result, sys,
};
use cudarc::nvrtc::Ptx;
use parking_lot::{Mutex, RwLock};

use crate::device::budget::Budget;
use crate::device::cuda::codegen::kernel_cache::Compiled;
use crate::device::cuda::runtime::driver::{self, LEAST_CAPABILITY, failed};
use crate::device::cuda::runtime::memory_rates::MemoryRates;
use crate::device::cuda::runtime::staging::ring::Ring;
use crate::device::cuda::runtime::staging::word::Words;
use crate::device::cuda::runtime::sticky_error;
use crate::error::{BowtieError, Result};

include!(concat!(env!("OUT_DIR"), "/kernel_families.rs"));

/// A GPU and everything that its queries share.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    /// Its root budget, of all sessions of the process: nine tenths of what was free when it was opened. (Later the pool keeps what was
    /// freed, so the driver counts it as used.)
    pub(crate) budget: Arc<Budget>,
    /// Compute capability.
    pub(crate) capability: (i32, i32),
    /// Streaming multiprocessors.
    pub(crate) multiprocessors: u32,
    /// Of its L2 cache.
    pub(crate) cache_bytes: u64,
    /// Bytes of shared memory that a block can have.
    pub(crate) shared_bytes: u32,
    pool: Pool,
    modules: Vec<Mutex<Option<Arc<CudaModule>>>>,
    kernels: RwLock<HashMap<&'static str, CudaFunction>>,
    /// Programs over rows.
    pub(crate) compiled: Compiled,
    pub(crate) up: Mutex<Option<Arc<Ring>>>,
    pub(crate) down: Mutex<Option<Arc<Ring>>>,
    pub(crate) notes: Words,
    /// Once they were measured.
    pub(crate) memory_rates: OnceLock<MemoryRates>,
    /// Whether it refused clusters of blocks once.
    pub(crate) refuses_clusters: AtomicBool,
}

/// The share of the card's memory that the pool keeps for later queries: one part of so many.
const KEPT_SHARE: u64 = 4;

/// Memory that is allocated and freed in the order of streams. Its own, so that nothing changes for others in the process.
#[derive(Debug)]
struct Pool(sys::CUmemoryPool);

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Pool {}
// SAFETY: the same.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of GPU `ordinal` that keeps up to `kept` bytes when nobody uses them.
    fn new(ordinal: u32, kept: u64) -> Result<Self> {
        // SAFETY: plain words and a pointer, for all of which zero is a value: the defaults.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = ordinal as i32;
        let mut pool = std::ptr::null_mut();
        let no: i32 = 0;
        // SAFETY: the driver was initialised; the properties are read, the handle is written; the attributes' values are one
        // u64 and one int, as their documentation says.
        unsafe {
            sys::cuMemPoolCreate(&mut pool, &properties)
                .result()
                .and_then(|()| {
                    sys::cuMemPoolSetAttribute(
                        pool,
                        sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                        (&raw const kept).cast_mut().cast(),
                    )
                    .result()
                })
                // Copies must not wait for the kernels of another query to get their memory.
                .and_then(|()| {
                    sys::cuMemPoolSetAttribute(
                        pool,
                        sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                        (&raw const no).cast_mut().cast(),
                    )
                    .result()
                })
        }
        .map_err(|e| failed("setting up the memory pool", e))?;
        Ok(Self(pool))
    }
}

/// The opened GPUs of the process: a context costs a tenth of a second and some memory of the card.
static OPENED: Mutex<Option<HashMap<u32, Arc<Gpu>>>> = Mutex::new(None);

/// Whether the kernels of a family may ask for all the shared memory that a block can have.
fn takes_most_shared_memory(family: &str) -> bool {
    matches!(
        family,
        "group_cluster" | "group_dense" | "group_present" | "group_spread" | "group_table" | "equi"
    )
}

impl Gpu {
    /// GPU `ordinal`.
    ///
    /// # Errors
    /// When there is no driver, when it is too old, or when it knows no such GPU.
    pub(crate) fn open(ordinal: u32) -> Result<Arc<Self>> {
        driver::gpu(ordinal)?;
        let mut opened = OPENED.lock();
        let opened = opened.get_or_insert_default();
        if let Some(gpu) = opened.get(&ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let gpu = Arc::new(Self::new(ordinal)?);
        // Can the driver translate the kernels for this card? If not, the host is taken before a query depends on it.
        gpu.module("keys")?;
        opened.insert(ordinal, Arc::clone(&gpu));
        Ok(gpu)
    }

    fn new(ordinal: u32) -> Result<Self> {
        let context =
            CudaContext::new(ordinal as usize).map_err(|e| failed("opening a context", e))?;
        let (major, minor) = context
            .compute_capability()
            .map_err(|e| failed("asking for the compute capability", e))?;
        if (major, minor) < LEAST_CAPABILITY {
            let (least, of_it) = LEAST_CAPABILITY;
            return Err(BowtieError::Device(format!(
                "the GPU cuda:{ordinal} has compute capability {major}.{minor}, and the kernels need {least}.{of_it}"
            )));
        }
        sticky_error::know(context.cu_ctx() as usize, ordinal);
        let (free_bytes, total_bytes) =
            result::mem_get_info().map_err(|e| failed("asking for free memory", e))?;
        // SAFETY: every allocation of ours is used on its queue's stream; copies on a ring's stream are ordered by events or waited for.
        unsafe { context.disable_event_tracking() };
        let pool = Pool::new(ordinal, total_bytes as u64 / KEPT_SHARE)?;
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .map_err(|e| failed("asking for the number of multiprocessors", e))?;
        let shared_bytes = context
            .attribute(
                sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )
            .map_err(|e| failed("asking for the shared memory of a block", e))?;
        let cache_bytes = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
            .map_err(|e| failed("asking for the cache's size", e))?;
        Ok(Self {
            context,
            cache_bytes: cache_bytes.max(0) as u64,
            pool,
            budget: Budget::new(free_bytes as u64 / 10 * 9),
            capability: (major, minor),
            multiprocessors: multiprocessors.max(1) as u32,
            shared_bytes: shared_bytes.max(0) as u32,
            modules: FAMILIES.iter().map(|_| Mutex::default()).collect(),
            kernels: RwLock::default(),
            compiled: Compiled::default(),
            up: Mutex::new(None),
            down: Mutex::new(None),
            notes: Words::default(),
            memory_rates: OnceLock::new(),
            refuses_clusters: AtomicBool::new(false),
        })
    }

    /// `bytes` of the pool, in the order of `stream`.
    pub(crate) fn allocate(
        &self,
        stream: &CudaStream,
        bytes: usize,
    ) -> std::result::Result<u64, DriverError> {
        let mut pointer = 0;
        // SAFETY: the pool and the stream are this context's; the pointer is written before it is read.
        unsafe {
            sys::cuMemAllocFromPoolAsync(&mut pointer, bytes, self.pool.0, stream.cu_stream())
        }
        .result()?;
        Ok(pointer)
    }

    /// Marks all work that was launched on `stream` so far.
    pub(crate) fn mark(&self, stream: &CudaStream) -> Result<CudaEvent> {
        let event = self
            .context
            .new_event(None)
            .map_err(|e| failed("making an event", e))?;
        event
            .record(stream)
            .map_err(|e| failed("recording an event", e))?;
        Ok(event)
    }

    /// A queue of work for the card.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        self.context
            .new_stream()
            .map_err(|e| failed("opening a stream", e))
    }

    /// A kernel; its family, the longest that its name begins with, is loaded at first use.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<CudaFunction> {
        if let Some(kernel) = self.kernels.read().get(name) {
            return Ok(kernel.clone());
        }
        let begins = |family: &str| {
            name.strip_prefix(family)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let families = FAMILIES.iter().map(|(family, _)| *family);
        let family = families
            .filter(|family| begins(family))
            .max_by_key(|family| family.len())
            .ok_or_else(|| BowtieError::Internal(format!("{name} is in no kernel family")))?;
        let kernel = self
            .module(family)?
            .load_function(name)
            .map_err(|e| failed(&format!("finding kernel {name}"), e))?;
        use CUfunction_attribute_enum::*;
        if takes_most_shared_memory(family) {
            let prepared = kernel
                .get_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
                .and_then(|taken| {
                    let most = self.shared_bytes as i32 - taken;
                    kernel.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
                });
            prepared.map_err(|e| failed(&format!("preparing kernel {name}"), e))?;
        }
        if family == "group_cluster" {
            // Clusters of 16 blocks run on some cards alone: where this is refused, none of them is at once.
            let _ = kernel.set_attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        }
        self.kernels.write().insert(name, kernel.clone());
        Ok(kernel)
    }

    fn module(&self, family: &str) -> Result<Arc<CudaModule>> {
        let ((name, image), module) = FAMILIES
            .iter()
            .zip(&self.modules)
            .find(|((name, _), _)| *name == family)
            .ok_or_else(|| BowtieError::Internal(format!("there is no kernel family {family}")))?;
        // The driver may compile a family for seconds: only who needs it waits.
        let mut module = module.lock();
        if let Some(module) = module.as_ref() {
            return Ok(Arc::clone(module));
        }
        let image = match std::str::from_utf8(image) {
            Ok(text) => Ptx::from_src(text),
            Err(_) => Ptx::from_binary(image.to_vec()),
        };
        let loaded = self
            .context
            .load_module(image)
            .map_err(|e| failed(&format!("loading kernel family {name}"), e))?;
        Ok(Arc::clone(module.insert(loaded)))
    }
}
