import {mount} from 'svelte';
import App from './parts/App.svelte';
import './app.css';
import './prose.css';

mount(App, {target: document.getElementById('app')});
