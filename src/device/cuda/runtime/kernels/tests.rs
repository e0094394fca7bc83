//! The generated table of kernels, and what launches refuse.

use super::*;
use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::driver::LEAST_DRIVER;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::ptx_entries::{PtxParameter, entries};

/// The text that the library has.
fn ptx(family: Family) -> String {
    String::from_utf8(unpacked(family.image()).unwrap()).unwrap()
}

/// A build with `BOWTIE_CUDA_ARCHS` has machine code in place of the PTX.
#[test]
fn each_entry_of_the_ptx_has_a_constant_with_its_parameters() {
    if MACHINE_CODE.is_empty() {
        return;
    }
    let mut families: Vec<Family> = ALL.iter().map(|(entry, _)| entry.family).collect();
    families.dedup();
    assert_eq!(families.len(), FAMILIES);
    let mut constants = ALL.iter().enumerate();
    for family in families {
        for entry in entries(&ptx(family)).unwrap() {
            let (index, (of, found)) = constants.next().expect("a constant for each entry");
            assert_eq!((of.family, of.name), (family, entry.name.as_str()));
            assert_eq!(of.index, index);
            let wanted = entry.parameters.iter().map(|parameter| match *parameter {
                PtxParameter::U32 => (4, 4),
                PtxParameter::U64 => (8, 8),
                PtxParameter::ByValue { bytes, align } => (bytes, align),
            });
            let wanted: Vec<(usize, usize)> = wanted.collect();
            assert_eq!(*found, wanted, "{}", entry.name);
        }
    }
    assert!(constants.next().is_none());
}

#[test]
fn parameters_are_those_of_the_source() {
    // Of `__global__ void rows_gather32(const uint32_t*, const uint32_t*, uint32_t*, uint32_t)`.
    assert_eq!(
        arguments_of(ROWS_GATHER32),
        [(8, 8), (8, 8), (8, 8), (4, 4)]
    );
    // Of `__global__ void group_sorted(const uint32_t*, uint32_t, Accumulators)`.
    assert_eq!(arguments_of(GROUP_SORTED), [(8, 8), (4, 4), (784, 8)]);
}

/// Two implementations where `T: Into<U>`: which one is meant is an error then, and this test does not compile.
macro_rules! refused {
    ($from:ty => $parameter:ty) => {{
        trait DoesNotFit<A> {
            fn refused() {}
        }
        impl<T> DoesNotFit<()> for T {}
        impl<T: Into<$parameter>> DoesNotFit<u8> for T {}
        <$from as DoesNotFit<_>>::refused();
    }};
}

#[test]
fn arguments_of_other_widths_do_not_compile() {
    refused!(u64 => U32);
    refused!(usize => U32);
    refused!(&'static Memory => U32);
    refused!(u32 => U64);
    refused!(usize => U64);
    refused!(&'static Structure<2> => U64);
    refused!(u64 => ByValue<'static, 8, 8>);
}

/// A build with `BOWTIE_CUDA_ARCHS` has its machine code in the images.
#[test]
fn machine_code_is_there_for_common_cards() {
    if MACHINE_CODE.is_empty() {
        return;
    }
    let code = |capability, driver| machine_code(Family::Keys, capability, driver);
    // By the oldest driver that takes the PTX, on all cards that it knows.
    for capability in [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0)] {
        let code = code(capability, LEAST_DRIVER).unwrap();
        assert!(code.starts_with(b"\x7fELF"), "{capability:?}");
    }
    for capability in [(10, 0), (10, 3), (12, 0)] {
        assert!(code(capability, 12_080).is_none(), "{capability:?}");
        let code = code(capability, 13_000).unwrap();
        assert!(code.starts_with(b"\x7fELF"), "{capability:?}");
    }
    // PTX is translated for others, and by drivers that are older than the code.
    assert!(code((8, 7), 13_000).is_none() && code((13, 0), 13_000).is_none());
    assert!(code((9, 0), LEAST_DRIVER - 10).is_none());
    // Cards of a generation run the code of its first one, and no other generation's.
    assert!(code((8, 6), 13_000) == code((8, 0), 13_000));
    assert!(code((7, 5), 13_000) != code((8, 0), 13_000));
}

#[test]
fn damaged_code_is_an_error() {
    let whole = Family::Keys.image();
    if whole.starts_with(XZ) {
        assert!(unpacked(whole).is_ok() && unpacked(&whole[..whole.len() / 2]).is_err());
    }
    assert!(unpacked(&XZ[..4]).is_err());
}

/// Each family has code that names its kernels, but for cards that do not know it.
#[test]
fn machine_code_has_the_kernels_of_the_ptx() {
    if MACHINE_CODE.is_empty() {
        return;
    }
    let mut entries = &ALL[..];
    while let Some((first, _)) = entries.first() {
        let (family, name) = (first.family, first.family.name());
        let count = entries
            .iter()
            .take_while(|(entry, _)| entry.family == family);
        let (of_family, rest) = entries.split_at(count.count());
        entries = rest;
        for capability in [(7, 5), (8, 0), (9, 0), (10, 0), (12, 0)] {
            let Some(code) = machine_code(family, capability, 13_000) else {
                let needs = match name {
                    "group_cluster" => (9, 0),
                    "group_spread" | "set_matrix_and" | "set_mmjoin_and" => (8, 0),
                    _ => (7, 5),
                };
                assert!(capability < needs, "{name} lacks code for {capability:?}");
                continue;
            };
            let words: std::collections::HashSet<&[u8]> = code.split(|byte| *byte == 0).collect();
            for (entry, _) in of_family {
                assert!(words.contains(entry.name.as_bytes()), "{}", entry.name);
            }
        }
    }
}
