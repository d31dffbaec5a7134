use super::*;
use proptest::prelude::*;

type Request = (Row, Vec<f64>);

fn metrics(count: usize) -> Columns {
    Columns::new((0..count).map(|n| (format!("metric_{n}"), "ms".to_string())))
}

/// The bytes of a shard, and where its blocks end.
fn written(requests: &[Request], metrics: Columns) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(metrics, &mut out);
    ends.push(out.len());
    for (row, values) in requests {
        writer.push(*row, values, &mut out);
        if *ends.last().unwrap() < out.len() {
            ends.push(out.len());
        }
    }
    writer.finish(&mut out);
    (out, ends)
}

fn columns(requests: &[Request], mut columns: Columns) -> Columns {
    requests
        .iter()
        .for_each(|(row, values)| columns.push(*row, values));
    columns
}

fn request(n: u64) -> Request {
    let number = |n: u64| f64::from(u32::try_from(n % 1_000).unwrap());
    let row = Row {
        index: n,
        start_ns: 1_700_000_000_000_000_000 + n,
        end_ns: 1_700_000_000_000_000_000 + 7 * n,
        is_valid: !n.is_multiple_of(7),
    };
    let late = if n < 5_000 { f64::NAN } else { number(n) };
    let values = vec![number(n) / 7.0, number(n), 4.0, f64::NAN, late];
    (row, values)
}

#[test]
fn what_is_written_is_read_whole_and_kinds_keep_every_bit() {
    let requests: Vec<Request> = (0..10_000).map(request).collect();
    let (bytes, _) = written(&requests, metrics(5));
    let (read, is_whole) = parse(&bytes).unwrap();
    assert!(is_whole);
    assert_eq!(read, columns(&requests, metrics(5)));
    assert_eq!(read.get("metric_3"), None);
    // 8 bytes for a part of a unit, 4 for a whole number, none for a constant.
    assert!(
        bytes.len() < 10_000 * (3 * 8 + 8 + 4 + 4 + 1),
        "{}",
        bytes.len()
    );
    let mut again = columns(&requests[..10], metrics(5));
    assert!(parse_into(&bytes, &mut again).unwrap());
    assert_eq!(again, read);
}

#[test]
fn a_shard_cut_anywhere_gives_its_whole_blocks_and_says_so() {
    let requests: Vec<Request> = (0..9_000).map(request).collect();
    let (bytes, ends) = written(&requests, metrics(5));
    let around = ends
        .iter()
        .flat_map(|end| [end - 1, *end, end + 1, end + 12, end + 100]);
    for cut in around.chain([0, 7, 8]) {
        let blocks = ends.iter().filter(|end| **end <= cut).count();
        match parse(&bytes[..cut]) {
            Ok((read, is_whole)) => {
                assert!(!is_whole && blocks > 0, "{cut}");
                assert_eq!(read.len(), (blocks - 1) * BLOCK_ROWS, "{cut}");
            }
            Err(error) => assert!(blocks == 0, "{cut}: {error}"),
        }
    }
    // The last block is there, and nothing says that it is the last.
    let (read, is_whole) = parse(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!((read.len(), is_whole), (9_000, false));
    // With one byte changed.
    let mut changed = bytes.clone();
    changed[ends[1] + 500] ^= 1;
    let (read, is_whole) = parse(&changed).unwrap();
    assert_eq!((read.len(), is_whole), (BLOCK_ROWS, false));
}

#[test]
fn foreign_bytes_are_refused_with_the_reason() {
    let (bytes, _) = written(&[], metrics(2));
    assert_eq!(parse(&bytes).unwrap(), (metrics(2), true));
    assert_eq!(parse(b"{}"), Err(WireError::Foreign));
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        parse(&bytes).unwrap_err()
    };
    assert_eq!(with(8, 9), WireError::Version(9));
    assert_eq!(with(12, 200), WireError::Header);
    assert_eq!(with(30, b'x'), WireError::Header);
    let twice = Columns::new([("a".into(), String::new()), ("a".into(), String::new())]);
    assert_eq!(parse(&written(&[], twice).0), Err(WireError::Header));
}

/// The bytes of a shard with this block, its checksum right.
fn with_block(rows: usize, content: &[u8]) -> Result<(Columns, bool), WireError> {
    let (mut bytes, ends) = written(&[], metrics(2));
    bytes.truncate(ends[0]);
    frame(rows, &mut bytes, |out| out.extend_from_slice(content));
    parse(&bytes)
}

#[test]
fn a_block_that_lies_is_an_error() {
    let right: Vec<u8> = [&[0; 24][..], &[1, ABSENT, ABSENT]].concat();
    assert_eq!(with_block(1, &right).unwrap().0.len(), 1);
    for (rows, content) in [
        (1, &right[..right.len() - 1]),
        (2, &right[..]),
        (BLOCK_ROWS + 1, &right[..]),
        (usize::MAX, &right[..]),
        (1, &[&right[..], &[0]].concat()[..]),
        (1, &[&right[..25], &[9, 0]].concat()[..]),
        (1, &[&right[..25], &[CONSTANT, 0]].concat()[..]),
    ] {
        assert_eq!(with_block(rows, content), Err(WireError::Block), "{rows}");
    }
    assert_eq!(with_block(0, &[0; 7]), Ok((metrics(2), false)));
    assert_eq!(
        with_block(0, &[1, 0, 0, 0, 0, 0, 0, 0]),
        Ok((metrics(2), false))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_requests_come_back(
        rows in prop::collection::vec(any::<(u64, u64, u64, bool)>(), 0..300),
        count in 0..6usize,
        values in prop::collection::vec(
            prop_oneof![
                any::<f64>().prop_map(|v| if v.is_nan() { f64::NAN } else { v }),
                (0..5u32).prop_map(f64::from),
                Just(f64::NAN),
            ],
            64,
        ),
    ) {
        let request = |(n, row): (usize, &(u64, u64, u64, bool))| {
            let (index, start_ns, end_ns, is_valid) = *row;
            let row = Row { index, start_ns, end_ns, is_valid };
            let values = (0..count).map(|at| values[(n * (at + 1) + at) % values.len()]);
            (row, values.collect())
        };
        let requests: Vec<Request> = rows.iter().enumerate().map(request).collect();
        let (bytes, _) = written(&requests, metrics(count));
        let (read, is_whole) = parse(&bytes).unwrap();
        prop_assert!(is_whole);
        prop_assert_eq!(read, columns(&requests, metrics(count)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        rows in 0..6usize,
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let _ = parse(&bytes);
        let _ = with_block(rows, &bytes);
        let requests: Vec<Request> = (0..20).map(request).collect();
        let (mut changed, _) = written(&requests, metrics(5));
        for (place, byte) in places {
            let at = place.index(changed.len());
            changed[at] = byte;
        }
        let _ = parse(&changed);
    }
}
