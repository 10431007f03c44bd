//! Tests of the limits of payload functions: every run ends and does not affect the next.

use super::*;

#[test]
fn an_endless_loop_is_stopped_wherever_it_hides() {
    for source in [
        "data => { for (;;); }",
        "data => { try { for (;;); } catch (e) { return 1 } finally { return 2 } }",
        "data => { for (;;) { try { throw 1 } catch (e) {} } }",
        "(() => { for (;;); })()",
        "data => ({ get a() { for (;;); } })",
        "data => ({ toJSON() { for (;;); } })",
        "data => { throw { toString() { for (;;); } } }",
        "data => { const e = new Error(); Object.defineProperty(e, 'stack', { get() { for (;;); } }); throw e }",
        "data => /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "data => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
        "data => { const a = new Array(1e6).fill(1); for (;;) a.indexOf(2) }",
        "data => { const a = new Array(1e5).fill('x'); for (;;) a.join() }",
        "data => { const s = 'a'.repeat(1e5); for (;;) s.includes('a'.repeat(9e3) + 'b') }",
        "data => { const g = function* () { for (;;) yield 1 }(); for (const x of g); }",
    ] {
        let stopped = run_within(source, "{}", 20).unwrap_err();
        assert!(stopped.is_out_of_time, "{source}: {stopped}");
    }
}

/// Without its limit each of these runs practically for ever without interrupt checks: then this test hangs.
#[test]
fn uninterruptible_calls_are_refused_in_advance() {
    let call = |name: &str| format!("data => Array.prototype.{name}.call({{ length: 2 ** 53 - 1 }}, 1, 0)");
    let methods = [
        "concat",
        "copyWithin",
        "flat",
        "join",
        "reverse",
        "shift",
        "slice",
        "sort",
        "splice",
        "toLocaleString",
        "toReversed",
        "toSorted",
        "toSpliced",
        "unshift",
        "with",
    ];
    let sparse =
        |expression: &str| format!("data => {{ const a = []; a.length = 2 ** 32 - 1; return {expression} }}");
    let expressions = [
        "[a].flat()",
        "[].concat(a)",
        "[1].flatMap(() => a)",
        "'' + a",
        "JSON.stringify(1, a)",
        "String.raw({ raw: a })",
        "a.values().drop(2 ** 31).next()",
        "a.values().join()",
        "a.values().includes(1)",
    ];
    let texts = ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"];
    let text = |name: &str| format!("data => 'a'.repeat(4e6).{name}('a'.repeat(2e6) + 'b', '')");
    let sources = methods.map(call).into_iter().chain(expressions.map(sparse)).chain(texts.map(text));
    for source in sources {
        let refused = run_it(&source, "{}").unwrap_err();
        let is_in_words = ["at most", "cannot look for", "not a function"]
            .iter()
            .any(|said| refused.message.contains(said));
        assert!(is_in_words && refused.line == Some(1), "{source}: {refused}");
    }
    let changing =
        "d => { let n = 0; return [].slice.call({ get length() { return n++ ? 2 ** 53 - 1 : 1 } }) }";
    assert_eq!(run_it(changing, "{}").unwrap_err().message, "TypeError: slice needs an array");
}

#[test]
fn limited_functions_otherwise_behave_as_before() {
    let source = "d => [[1, [2, [3]]].flat(), [1, [2, [3]]].flat(Infinity), [1, , 2].flatMap(x => [x, [x]]), [3, 1, 2].sort(), \
        [1].concat(2, [3], [[4]], 'x'), [].slice.call('abc', 1), (function () { return [].slice.call(arguments, 1) })(1, 2), \
        'a,b'.split(','), 'a1b'.split(/\\d/), 'abc'.replace('b', x => x + x), 'aa'.replaceAll('a', 'b'), String.raw`\\n${1}`, \
        [1, 2, 3].with(1, 5), [3, 2].toSorted((a, b) => a - b), [1, 2].includes(2), 'abc'.indexOf('c'), [1, 2].join('-'), \
        [].flat.name, Object.keys(Array.prototype).length, JSON.stringify({ a: 1, b: 2 }, ['a'])]";
    let expected = r#"[[1,2,[3]],[1,2,3],[1,[1],2,[2]],[1,2,3],[1,2,3,[4],"x"],["b","c"],[2],["a","b"],["a","b"],"abbc","bb","\\n1",[1,5,3],[2,3],true,2,"1-2","flat",0,"{\"a\":1}"]"#;
    assert_eq!(run_it(source, "{}").unwrap(), expected);
}

#[test]
fn memory_and_stack_are_bounded_without_affecting_the_next_run() {
    for (source, expected) in [
        ("data => { const f = () => f() + 1; return f() }", "Maximum call stack size exceeded"),
        (
            "data => { let a = []; for (let i = 0; i < 200000; i++) a = [a]; return a }",
            "Maximum call stack size exceeded",
        ),
        ("data => { const a = []; for (;;) a.push(new Array(1000).fill(7)) }", "ran out of memory"),
        ("data => { let s = 'x'; for (;;) s += s }", "string too long"),
        ("data => 'x'.repeat(2 ** 29)", "ran out of memory"),
        ("data => 'x'.repeat(2 ** 23)", "the result has 8388610 bytes; at most 4194304 are allowed"),
        ("data => { let a = 1; for (let i = 0; i < 129; i++) a = [a]; return a }", "nested deeper than 128"),
    ] {
        let said = error_of(source);
        assert!(said.contains(expected), "{source}: {said}");
        assert_eq!(run_it("data => 1", "{}").unwrap(), "1");
    }
}

#[test]
fn running_out_of_memory_at_any_moment_ends_only_the_run() {
    for kilobytes in (40..1500).step_by(97) {
        let limits = FunctionLimits { memory_bytes_max: kilobytes * 1024, ..FunctionLimits::default() };
        for source in [
            "d => { const a = []; for (;;) a.push({ x: a.length + 'abc', y: [new Map([[1, a]])] }) }",
            "d => { try { const a = []; for (;;) a.push(a.length + '') } catch (e) { return JSON.stringify(d) + e } }",
            "d => { const f = async () => { await 1; throw 2 }; for (let i = 0; i < 5000; i++) f(); return 1 }",
            "d => { const r = []; for (;;) r.push(/(a|b)*c/.exec('ababc' + r.length)) }",
        ] {
            let mut left = 200;
            let ended = run(source, br#"{"a":["x"]}"#, &limits, move || {
                left -= 1;
                left > 0
            });
            // Too little memory for the sandbox itself, or for the function's work.
            let is_expected = match &ended {
                Ok(made) => made.len() < 200,
                Err(error) if kilobytes < 300 => !error.is_out_of_time,
                Err(error) => error.is_out_of_time || error.message.contains("memory"),
            };
            assert!(is_expected, "{kilobytes} KB, {source}: {ended:?}");
        }
    }
}
