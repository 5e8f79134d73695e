// @ts-check
// Trusted Types: where the browser has them, no text becomes markup or code but by this policy.

// The WebGL part of the plotting library makes functions of arithmetic and calls on its own tables; these words are
// in none of them, and in everything that could reach the page or the network.
const FOREIGN = /(?<!\.)\b(?:document|window|globalThis|self|parent|location|navigator|fetch|import|eval)\b|\bthis\s*[.[]|constructor/;
const MADE = /^\(function anonymous\(/;

/** Sets the policy; the one script that may be run as it is is `library`. @param {string} library */
export function guard(library) {
  const { trustedTypes } = /** @type {any} */ (window);
  trustedTypes?.createPolicy("default", {
    createScript: (text) => (text === library || (MADE.test(text) && !FOREIGN.test(text)) ? text : null),
  });
}
