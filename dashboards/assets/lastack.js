/* What the browser does by itself: asks for a refresh, keeps clocks going, says when nobody answers. No request leaves the server's
   own address. The rules: one question at a time, every 2 s, none while the tab is hidden; after three unanswered polls the page says
   that it is old, and its clocks stop. */
"use strict";

(function () {
  const POLL_MS = 2000;
  const STEP_MS = 250;
  const GIVE_UP_MS = 20000;
  const OLD_AFTER_MS = 3 * POLL_MS;

  const state = {page: null, asked: 0, answered: 0, waiting: false, offsetMs: null};

  function scheme() {
    return document.documentElement.getAttribute("data-mantine-color-scheme") === "dark" ? "dark" : "light";
  }

  function page() {
    return document.querySelector("[data-live]");
  }

  function ask() {
    const node = page();
    if (!node || !window.dash_clientside || !window.dash_clientside.set_props) return;
    state.asked = Date.now();
    state.waiting = true;
    window.dash_clientside.set_props(node.dataset.live + "-tick", {data: {at: state.asked, scheme: scheme()}});
  }

  function step() {
    const node = page();
    if (node !== state.page) {
      // Another page was put in place: it is filled at once.
      state.page = node;
      state.answered = Date.now();
      if (node) ask();
      return;
    }
    const now = Date.now();
    const isDue = now - state.asked >= POLL_MS && (!state.waiting || now - state.asked >= GIVE_UP_MS);
    if (node && !document.hidden && isDue) ask();
    const isOld = Boolean(node) && !document.hidden && now - state.answered > OLD_AFTER_MS;
    const offline = document.getElementById("offline");
    if (offline) {
      offline.hidden = !isOld;
      const text = document.getElementById("offline-text");
      if (isOld && text) {
        text.textContent =
          "Lastack's web process has not answered for " + Math.floor((now - state.answered) / 1000) + " s; what stands below is of then.";
      }
    }
    tellTime(isOld);
  }

  function tellTime(isOld) {
    if (state.offsetMs === null) return;
    const serverNow = Date.now() + state.offsetMs;
    const clock = document.getElementById("utc-now");
    if (clock && !isOld) clock.textContent = new Date(serverNow).toISOString().slice(11, 19) + " UTC";
    if (isOld) return;
    document.querySelectorAll(".clock[data-since-us]").forEach(function (one) {
      one.textContent = lasted(serverNow - Number(one.dataset.sinceUs) / 1000);
    });
  }

  function lasted(ms) {
    const seconds = Math.max(0, Math.floor(ms / 1000));
    const pad = function (value) { return String(value).padStart(2, "0"); };
    if (seconds < 60) return seconds + " s";
    if (seconds < 3600) return Math.floor(seconds / 60) + " min " + pad(seconds % 60) + " s";
    return Math.floor(seconds / 3600) + " h " + pad(Math.floor(seconds / 60) % 60) + " min";
  }

  function dress() {
    /* AG Grid takes its colours from this attribute; figures are drawn by the server in the colours that the next question names. */
    document.body.dataset.agThemeMode = scheme();
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.lastack = {
    answered: function (answer) {
      if (!answer) return window.dash_clientside.no_update;
      state.answered = Date.now();
      state.waiting = false;
      state.offsetMs = answer.at_us / 1000 - Date.now();
      const node = page();
      if (node) node.classList.remove("loading");
      const updated = document.getElementById("updated");
      if (updated) updated.textContent = "";
      tellTime(false);
      return String(answer.at_us);
    },
  };

  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) {
      // What happened while nobody looked is no reason to call the page old.
      state.answered = Date.now();
      ask();
    }
  });

  document.addEventListener("DOMContentLoaded", function () {
    dress();
    new MutationObserver(function () {
      dress();
      ask();
    }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-mantine-color-scheme"]});
    window.setInterval(step, STEP_MS);
  });
})();
