// Runs before the author's code. Most of JavaScript's own functions can be interrupted, as the author's loops can; these
// cannot, and could take for ever on a list or a text. Here they get a limit and interrupt checks in proportion to their work.
(() => {
    'use strict';
    const { apply, getOwnPropertyDescriptor, defineProperty } = Reflect;
    const { isArray } = Array;
    const { RangeError, TypeError, Object: object } = globalThis;
    const { map } = Array.prototype;
    const ELEMENTS_MAX = 1000000;

    // Each iteration of a loop in JavaScript is an interrupt check.
    const ask = times => { for (; times >= 1; times--); };

    const check = (list, name) => {
        if (list === null || list === undefined) return;
        // Only a length that is a plain number now is sure to be the same when the function reads it.
        const length = isArray(list) || typeof list === 'string'
            ? list.length : getOwnPropertyDescriptor(object(list), 'length')?.value;
        if (typeof length !== 'number') throw new TypeError(name + ' needs an array');
        if (length > ELEMENTS_MAX) throw new RangeError(name + ' takes at most ' + ELEMENTS_MAX + ' elements; there are ' + length);
        ask(length / 1000);
    };
    const replace = (holder, name, by) => {
        defineProperty(by, 'name', { value: name });
        defineProperty(holder, name, { value: by });
    };
    const guard = (holder, names, before) => {
        for (const name of names) {
            const original = holder[name];
            replace(holder, name, function (...given) {
                before(this, given, name);
                return apply(original, this, given);
            });
        }
    };

    const list = Array.prototype;
    guard(list, ['join', 'toLocaleString', 'shift', 'unshift', 'reverse', 'toReversed', 'sort', 'toSorted', 'slice', 'splice',
        'toSpliced', 'copyWithin', 'with'], (self, _, name) => check(self, name));
    guard(list, ['concat'], (self, given) => {
        check(self, 'concat');
        for (let i = 0; i < given.length; i++) {
            if (isArray(given[i])) check(given[i], 'concat');
            else given[i] = [given[i]];
        }
    });
    // These have interrupt checks of their own, but not on a plain array.
    guard(list, ['indexOf', 'lastIndexOf', 'includes'], self => { if (isArray(self)) ask(self.length / 1000); });
    const flatten = (into, from, depth) => {
        check(from, 'flat');
        const { length } = from;
        for (let i = 0; i < length; i++) {
            if (!(i in from)) continue;
            if (depth >= 1 && isArray(from[i])) flatten(into, from[i], depth - 1);
            else into[into.length] = from[i];
        }
        return into;
    };
    replace(list, 'flat', function (depth = 1) { return flatten([], this, depth); });
    replace(list, 'flatMap', function (...given) { return flatten([], apply(map, this, given), 1); });

    // Searching a long text for a long text can take time proportional to the product of their lengths.
    const search = (self, given, name) => {
        if (typeof self !== 'string' || typeof given[0] !== 'string') return;
        const work = self.length * given[0].length;
        if (work > 1e9) throw new RangeError(name + ' cannot look for a text of ' + given[0].length + ' characters in ' + self.length);
        ask(work / 1e5);
    };
    guard(String.prototype, ['indexOf', 'lastIndexOf', 'includes', 'split', 'replace', 'replaceAll'], search);
    guard(String, ['raw'], (_, given) => check(object(given[0]).raw, 'raw'));
    guard(JSON, ['stringify'], (_, given) => { if (isArray(given[1])) check(given[1], 'stringify'); });
    guard(Iterator.prototype, ['drop'], (_, given) => {
        if (given[0] > ELEMENTS_MAX) throw new RangeError('drop takes at most ' + ELEMENTS_MAX);
    });
    for (const name of ['chunks', 'includes', 'join', 'windows']) delete Iterator.prototype[name];
})()
