use super::*;

pub(crate) fn gpu(name: &str) -> GpuInfo {
    GpuInfo {
        ordinal: 0,
        name: name.into(),
        total_bytes: 1 << 36,
        compute_capability: "9.0".into(),
        takes_kernels: true,
        driver: "13.0".into(),
    }
}

pub(crate) fn machine() -> Machine {
    Machine::new(&gpu("NVIDIA H200"), "Some CPU @ 2.1\tGHz", 16)
}

/// A directory that is removed with its files.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("bowtie-rates-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn kept(&self) -> KeptRates {
        KeptRates::In(Some(self.0.clone()))
    }

    fn file(&self) -> PathBuf {
        self.0.join(machine().file_name())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn host() -> HostRates {
    HostRates::of([20_123.25, 1e2 / 3.0])
}

pub(crate) fn card() -> CardRates {
    CardRates::of([41.0, 1e2 / 3.0, 1.25e7, 1.0, 20.5])
}

fn of_host() -> Kept {
    Kept {
        host: Some(host()),
        card: None,
    }
}

fn of_card() -> Kept {
    Kept {
        host: None,
        card: Some(card()),
    }
}

#[test]
fn what_is_written_is_read() {
    let directory = Directory::new("written");
    let kept = directory.kept();
    assert_eq!(kept.read(&machine()), Kept::default());
    kept.write(&machine(), of_host());
    assert_eq!(kept.read(&machine()), of_host());
    // The card's beside the host's.
    kept.write(&machine(), of_card());
    let both = Kept {
        host: Some(host()),
        card: Some(card()),
    };
    assert_eq!(kept.read(&machine()), both);
    // No temporary file is left.
    let files = fs::read_dir(&directory.0).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [directory.file()]);
}

#[test]
fn each_machine_has_a_file() {
    let directory = Directory::new("machines");
    let kept = directory.kept();
    kept.write(&machine(), of_host());
    let older = GpuInfo {
        driver: "12.8".into(),
        ..gpu("NVIDIA H200")
    };
    let smaller = GpuInfo {
        compute_capability: "8.9".into(),
        ..gpu("NVIDIA H200")
    };
    let cpu = "Some CPU @ 2.1 GHz";
    for other in [
        Machine::new(&gpu("NVIDIA L4"), cpu, 16),
        Machine::new(&older, cpu, 16),
        Machine::new(&smaller, cpu, 16),
        Machine::new(&gpu("NVIDIA H200"), "Other CPU", 16),
        Machine::new(&gpu("NVIDIA H200"), cpu, 8),
    ] {
        assert_eq!(kept.read(&other), Kept::default(), "{other:?}");
        // Nor is a file of another machine taken by its name.
        fs::copy(directory.file(), directory.0.join(other.file_name())).unwrap();
        assert_eq!(kept.read(&other), Kept::default(), "{other:?}");
    }
    let same = Machine::new(&gpu("NVIDIA  H200"), cpu, 16);
    assert_eq!(kept.read(&same), of_host());
    // A name of a file, whatever the card's name is.
    let odd = Machine::new(&gpu("../é/\n="), &"x".repeat(1000), 1).file_name();
    assert!(
        odd.len() < 255 && !odd.starts_with('.') && !odd.contains('/'),
        "{odd}"
    );
}

#[test]
fn a_corrupt_file_is_none() {
    let directory = Directory::new("corrupt");
    let kept = directory.kept();
    let both = Kept {
        host: Some(host()),
        card: Some(card()),
    };
    kept.write(&machine(), both);
    let whole = fs::read_to_string(directory.file()).unwrap();
    let is_none = |text: &[u8]| {
        fs::write(directory.file(), text).unwrap();
        let read = kept.read(&machine());
        assert_eq!(read, Kept::default(), "{}", String::from_utf8_lossy(text));
    };
    // Cut at any byte.
    for end in 0..whole.len() {
        is_none(&whole.as_bytes()[..end]);
    }
    let with = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        is_none(whole.replace(from, to).as_bytes());
    };
    with("rates 1\n", "rates 2\n");
    with("NVIDIA H200", "NVIDIA H100");
    with("host.probed_key = ", "host.other = ");
    with("host.probed_key = ", "host.probed_key ");
    with("host.probed_key = 20123.25", "host.probed_key = fast");
    // Not plausible.
    for time in ["NaN", "inf", "-20123.25", "0", "1e300", "20123250"] {
        with("20123.25", time);
    }
    with("card.launch = 12500000", "card.launch = 1");
    with("\nend", "\ncard.launch = 12500000\nend");
    is_none(&[0xFF; 64]);
    is_none(whole.repeat(100).as_bytes());
    // It is replaced.
    kept.write(&machine(), both);
    assert_eq!(kept.read(&machine()), both);
}

#[test]
fn a_directory_that_cannot_be_written_is_no_error() {
    let directory = Directory::new("refused");
    fs::create_dir_all(&directory.0).unwrap();
    // A file stands where the directory would be.
    let file = directory.0.join("file");
    fs::write(&file, "text").unwrap();
    let kept = KeptRates::In(Some(file.join("below")));
    kept.write(&machine(), of_host());
    assert_eq!(kept.read(&machine()), Kept::default());
    // A directory stands where the file would be.
    fs::create_dir_all(directory.file().join("below")).unwrap();
    let kept = directory.kept();
    kept.write(&machine(), of_host());
    assert_eq!(kept.read(&machine()), Kept::default());
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
    for nowhere in [KeptRates::Off, KeptRates::In(None)] {
        nowhere.write(&machine(), of_host());
        assert_eq!(nowhere.read(&machine()), Kept::default());
    }
}

/// A reader sees one of the files that were written, whole.
#[test]
fn files_are_replaced_as_a_whole() {
    let directory = Directory::new("atomic");
    let kept = directory.kept();
    kept.write(&machine(), of_host());
    let times = [20_000.0, 21_000.0, 22_000.0, 1e5 / 3.0];
    std::thread::scope(|scope| {
        for time in times {
            let kept = &kept;
            scope.spawn(move || {
                for _ in 0..50 {
                    let host = Some(HostRates::of([time, 70.0]));
                    kept.write(&machine(), Kept { host, card: None });
                    assert!(kept.read(&machine()).host.is_some());
                }
            });
        }
    });
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[test]
fn the_environment_says_where() {
    let of = |variables: &[(&str, &str)]| {
        KeptRates::of(|name| {
            let set = variables.iter().find(|(variable, _)| *variable == name);
            set.map(|(_, value)| value.into())
        })
    };
    let at = |path: &str| KeptRates::In(Some(path.into()));
    assert_eq!(
        of(&[("BOWTIE_RATES", "off"), ("HOME", "/h")]),
        KeptRates::Off
    );
    assert_eq!(of(&[("BOWTIE_RATES", "/r"), ("HOME", "/h")]), at("/r"));
    let caches = [("XDG_CACHE_HOME", "/c"), ("HOME", "/h")];
    assert_eq!(of(&caches), at("/c/datafusion-bowtie"));
    let home = at("/h/.cache/datafusion-bowtie");
    assert_eq!(of(&[("BOWTIE_RATES", ""), ("HOME", "/h")]), home);
    assert_eq!(of(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]), home);
    assert_eq!(of(&[]), KeptRates::In(None));
}
