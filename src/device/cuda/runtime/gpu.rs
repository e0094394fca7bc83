//! [`Gpu`]: one card, opened once in the process: its context, memory pool, root budget, kernels and staging rings.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::sys::CUfunction_attribute_enum;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DriverError, result, sys};
use cudarc::nvrtc::Ptx;
use parking_lot::Mutex;

use crate::device::budget::Budget;
use crate::device::counters::Counted;
use crate::device::cuda::runtime::driver::{
    self, LEAST_CAPABILITY, failed, is_out_of_memory, text,
};
use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::kernel_cache::Compiled;
use crate::device::cuda::runtime::kernels::{
    ENTRIES, Entry, FAMILIES, Family, image, machine_code,
};
use crate::device::cuda::runtime::staging::ring::LazyRing;
use crate::device::cuda::runtime::staging::word::Words;
use crate::device::cuda::runtime::when_idle::WhenIdle;
use crate::device::machine_rates::MemoryRates;
use crate::device::trace::{self, Lane};
use crate::error::{BowtieError, Result};

/// A card, and what all queries on it share.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    /// The root budget of all sessions of the process: nine tenths of the memory that was free when the card was opened.
    /// (Later the pool keeps freed memory, which the driver counts as used.)
    pub(crate) budget: Arc<Budget>,
    /// Compute capability.
    pub(crate) capability: (i32, i32),
    /// Streaming multiprocessors.
    pub(crate) multiprocessors: u32,
    /// Bytes of the L2 cache.
    pub(crate) cache_bytes: u64,
    /// Bytes of shared memory that a block can have.
    pub(crate) shared_bytes: u32,
    pool: Pool,
    /// Trims the pool.
    when_idle: WhenIdle,
    /// By family, once it was loaded.
    modules: [Mutex<Option<Arc<CudaModule>>>; FAMILIES],
    /// By [`Entry::index`], once it was asked for.
    kernels: [OnceLock<CudaFunction>; ENTRIES],
    /// Row programs that were compiled.
    pub(crate) compiled: Compiled,
    pub(crate) upload_ring: LazyRing,
    pub(crate) download_ring: LazyRing,
    pub(crate) pinned_words: Words,
    /// Rates of the memory, once they were measured.
    pub(crate) memory_rates: OnceLock<MemoryRates>,
    /// Whether it once refused clusters of blocks.
    pub(crate) refuses_clusters: AtomicBool,
}

/// The pool keeps at most one in this number of the card's bytes for later queries.
const KEPT_SHARE: u64 = 4;
/// It keeps nothing after this time without work.
const KEPT_TIME: Duration = Duration::from_secs(10);

/// A pool of memory that is allocated and freed in the order of streams. It is not the card's default pool, whose settings
/// other users in the process rely on.
#[derive(Debug)]
struct Pool(sys::CUmemoryPool);

// SAFETY: a handle, which the driver lets any thread use.
unsafe impl Send for Pool {}
// SAFETY: the same.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of the card of `context` that keeps up to `kept` unused bytes.
    fn new(context: &CudaContext, kept: u64) -> Result<Self> {
        // SAFETY: plain words and a pointer, for all of which zero is a value: the defaults.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = context.ordinal() as i32;
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
                // An allocation must not wait for the kernels of another query.
                .and_then(|()| {
                    sys::cuMemPoolSetAttribute(
                        pool,
                        sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                        (&raw const no).cast_mut().cast(),
                    )
                    .result()
                })
        }
        .map_err(|e| failed(context, "setting up the memory pool", e))?;
        Ok(Self(pool))
    }
}

/// The opened GPUs of the process: a context costs a tenth of a second and some memory of the card.
static OPENED: Mutex<Option<HashMap<u32, Arc<Gpu>>>> = Mutex::new(None);

/// Whether the kernels of a family may ask for all the shared memory that a block can have.
fn takes_most_shared_memory(family: Family) -> bool {
    use Family::*;
    matches!(
        family,
        GroupCluster | GroupDense | GroupPartTable | GroupPresent | GroupSpread | GroupTable | Equi
    )
}

impl Gpu {
    /// GPU `ordinal`, which is opened at its first use.
    ///
    /// # Errors
    /// Without a driver, with one that is too old or knows no such GPU, and for a GPU whose kernels it cannot compile.
    pub(crate) fn open(ordinal: u32) -> Result<Arc<Self>> {
        driver::gpu(ordinal)?;
        let mut opened = OPENED.lock();
        let opened = opened.get_or_insert_default();
        if let Some(gpu) = opened.get(&ordinal) {
            return Ok(Arc::clone(gpu));
        }
        let gpu = Arc::new(Self::new(ordinal)?);
        // A driver that cannot translate the kernels for this card is found before a query depends on it.
        gpu.module(Family::Keys)?;
        opened.insert(ordinal, Arc::clone(&gpu));
        Ok(gpu)
    }

    /// Bytes that are free on the card now, for any process.
    ///
    /// # Errors
    /// When the driver does not tell.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.context
            .bind_to_thread()
            .map_err(|e| self.failed("entering a context", e))?;
        let (free, _) =
            result::mem_get_info().map_err(|e| self.failed("asking for free memory", e))?;
        Ok(free as u64)
    }

    fn new(ordinal: u32) -> Result<Self> {
        // Nothing is lost yet: the next query may find the card ready.
        let context = CudaContext::new(ordinal as usize).map_err(|e| {
            let what = "opening a context failed on the GPU";
            BowtieError::Device(format!("{what}: {}", text(e)))
        })?;
        let failed = |what, e| failed(&context, what, e);
        let (major, minor) = context
            .compute_capability()
            .map_err(|e| failed("asking for the compute capability", e))?;
        if (major, minor) < LEAST_CAPABILITY {
            let (least, of_it) = LEAST_CAPABILITY;
            return Err(BowtieError::Device(format!(
                "the GPU cuda:{ordinal} has compute capability {major}.{minor}, and the kernels need {least}.{of_it} (Turing) or newer"
            )));
        }
        let (free_bytes, total_bytes) =
            result::mem_get_info().map_err(|e| failed("asking for free memory", e))?;
        // SAFETY: each allocation is used on its own stream; copies on a ring's stream are ordered by events or waited
        // for.
        unsafe { context.disable_event_tracking() };
        let pool = Pool::new(&context, total_bytes as u64 / KEPT_SHARE)?;
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
            when_idle: WhenIdle::after(KEPT_TIME),
            budget: Budget::new(free_bytes as u64 / 10 * 9),
            capability: (major, minor),
            multiprocessors: multiprocessors.max(1) as u32,
            shared_bytes: shared_bytes.max(0) as u32,
            modules: [const { Mutex::new(None) }; FAMILIES],
            kernels: [const { OnceLock::new() }; ENTRIES],
            compiled: Compiled::default(),
            upload_ring: LazyRing::default(),
            download_ring: LazyRing::default(),
            pinned_words: Words::default(),
            memory_rates: OnceLock::new(),
            refuses_clusters: AtomicBool::new(false),
        })
    }

    /// Allocates `bytes` of the pool, in the order of `stream`.
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

    /// Gives the memory that the pool keeps back to the driver, which may need it for kernels.
    pub(crate) fn trim(&self) -> Result<()> {
        // Memory of the pool counts as used until the streams that freed it are done.
        let done = self.context.synchronize();
        done.and_then(|()| {
            // SAFETY: the pool lives as long as the process.
            unsafe { sys::cuMemPoolTrimTo(self.pool.0, 0) }.result()
        })
        .map_err(|e| self.failed("giving back unused memory", e))
    }

    /// The error of a call on this card that should not fail.
    pub(crate) fn failed(&self, what: &str, error: DriverError) -> BowtieError {
        failed(&self.context, what, error)
    }

    /// Notes that the work of a stream ended. The pool is trimmed after [`KEPT_TIME`] without work: other processes may need the memory.
    pub(crate) fn work_ended(self: &Arc<Self>) {
        let (budget, gpu) = (Arc::clone(&self.budget), Arc::downgrade(self));
        self.when_idle.work_ended(
            move || budget.in_use_by_all() == 0,
            move || {
                if let Some(Err(error)) = gpu.upgrade().map(|gpu| gpu.trim()) {
                    log::debug!("an idle GPU keeps its unused memory: {error}");
                }
            },
        );
    }

    /// An event behind all work that was launched on `stream` so far.
    pub(crate) fn mark(&self, stream: &CudaStream) -> Result<Event> {
        let event = Event::new(&self.context).map_err(|e| self.failed("making an event", e))?;
        event
            .record(stream)
            .map_err(|e| self.failed("recording an event", e))?;
        Ok(event)
    }

    /// A new stream of the card.
    pub(crate) fn stream(&self) -> Result<Arc<CudaStream>> {
        self.context
            .new_stream()
            .map_err(|e| self.failed("opening a stream", e))
    }

    /// A kernel; its family is loaded at its first use.
    pub(crate) fn kernel(&self, entry: Entry) -> Result<&CudaFunction> {
        let known = &self.kernels[entry.index];
        match known.get() {
            Some(kernel) => Ok(kernel),
            None => {
                let kernel = self.load(entry)?;
                Ok(known.get_or_init(|| kernel))
            }
        }
    }

    fn load(&self, entry: Entry) -> Result<CudaFunction> {
        let Entry { family, name, .. } = entry;
        let kernel = self
            .module(family)?
            .load_function(name)
            .map_err(|e| self.failed(&format!("finding kernel {name}"), e))?;
        use CUfunction_attribute_enum::*;
        if takes_most_shared_memory(family) {
            let prepared = kernel
                .get_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
                .and_then(|taken| {
                    let most = self.shared_bytes as i32 - taken;
                    kernel.set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most)
                });
            prepared.map_err(|e| self.failed(&format!("preparing kernel {name}"), e))?;
        }
        if family == Family::GroupCluster {
            // Only some cards run clusters of 16 blocks. Where this is refused, `clusters_at_once` answers none.
            let _ = kernel.set_attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        }
        Ok(kernel)
    }

    fn module(&self, family: Family) -> Result<Arc<CudaModule>> {
        // The driver may compile a family for seconds: only queries that need this family wait.
        let mut module = self.modules[family as usize].lock();
        if let Some(module) = module.as_ref() {
            return Ok(Arc::clone(module));
        }
        let loaded = trace::timed(Counted::TranslationTime, Lane::Wait, "load kernels", || {
            self.loaded(family)
        })?;
        Ok(Arc::clone(module.insert(loaded)))
    }

    /// A family by the machine code of this library, or translated by the driver.
    fn loaded(&self, family: Family) -> Result<Arc<CudaModule>> {
        let loading = |e| self.failed(&format!("loading kernel family {}", family.name()), e);
        if let Some(code) = machine_code(family, self.capability, driver::driver_version()?) {
            match self.context.load_module(Ptx::from_binary(code)) {
                Ok(module) => return Ok(module),
                // The translation of its PTX would need as much.
                Err(error) if is_out_of_memory(error) => return Err(loading(error)),
                Err(error) => {
                    log::debug!("PTX of {} is translated: {}", family.name(), text(error));
                }
            }
        }
        // PTX, which the driver translates, or the machine code of a build with BOWTIE_CUDA_ARCHS.
        self.context.load_module(image(family)?).map_err(loading)
    }
}
